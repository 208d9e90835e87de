"""Inputs of downloads: HTTP responses."""

import http.client
import io
import urllib.error
import urllib.request
from pathlib import Path
from random import Random

from examples.data.download import fetch

from .mutations import damaged, damaged_text
from .worker import Reader


class Answers(Reader):
    """A download is complete, or fails with one line that states a remedy."""

    name = "answers"
    HEAD = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\n"
    VALID = (
        HEAD % b"200 OK" + b"Content-Length: 10\r\n\r\n0123456789",
        HEAD % b"206 Partial Content" + b"Content-Length: 6\r\nContent-Range: bytes 4-9/10\r\n\r\n456789",
        HEAD % b"200 OK" + b"Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
        HEAD % b"416 Range Not Satisfiable" + b"Content-Range: bytes */4\r\nContent-Length: 0\r\n\r\n",
        HEAD % b"404 Not Found" + b"Content-Length: 4\r\n\r\nnone",
        HEAD % b"302 Found" + b"Location: http://here/other\r\nContent-Length: 0\r\n\r\n",
    )

    def write(self, rng: Random, folder: Path) -> None:
        change = rng.choice((damaged, damaged_text))
        (folder / "answer").write_bytes(change(rng, rng.choice(self.VALID), rng.choice(self.VALID)))
        if rng.random() < 0.5:
            (folder / "x.part").write_bytes(b"0123")

    def read(self, folder: Path) -> None:
        urllib.request.install_opener(urllib.request.build_opener(_Canned((folder / "answer").read_bytes())))
        part = fetch("http://here/x", folder / "x.part")
        assert part.is_file() and {path.name for path in folder.iterdir()} <= {"answer", "x.part"}


class _Canned(urllib.request.HTTPHandler):
    """A server that gives the same answer to every request."""

    def __init__(self, answer: bytes):
        super().__init__()
        self.answer = answer

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(self)
        try:
            response.begin()
        except OSError as error:
            raise urllib.error.URLError(error) from error
        response.url, response.msg = request.full_url, response.reason
        return response

    def makefile(self, mode: str) -> io.BytesIO:
        """The answer, as a socket gives it to `http.client.HTTPResponse`."""
        return io.BytesIO(self.answer)
