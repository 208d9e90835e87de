"""``data get`` from a local server that serves ranges or not, interrupts connections or sends wrong data."""

import dataclasses
import gzip
import hashlib
import http.client
import http.server
import socket
import ssl
import threading

import pytest
from systems import needs

from examples.data import DataFile, DataSet, DownloadError, __main__, copy_from, get
from examples.data.__main__ import main
from examples.data.download import fetch

TEXT = "".join(f"sentence {number} größer\n" for number in range(3000)).encode()
SHA256 = hashlib.sha256(TEXT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.ranges.append(self.headers.get("Range"))
        body = server.files.get(self.path)
        if body is None:
            return self.send_error(404)
        start = 0
        if server.serves_ranges and "Range" in self.headers:
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        cut, server.cut_after = server.cut_after, None
        self.wfile.write(body[start : start + cut] if cut else body[start:])
        return None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.ranges, server.serves_ranges, server.cut_after = {}, [], True, None
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def one_file(server) -> DataSet:
    """A data set of one .gz file with a published SHA-256."""
    server.files["/a.en.gz"] = gzip.compress(TEXT)
    return DataSet(
        "one", "text", "a license", "here", "90 kB", (DataFile("a.en", f"{server.address}/a.en.gz", sha256=SHA256),)
    )


def test_get_downloads_and_records_only_what_is_not_there(server, one_file, tmp_path):
    home = get(one_file, tmp_path)
    assert (home / "a.en").read_bytes() == TEXT
    assert sorted(path.name for path in home.iterdir()) == ["SHA256SUMS", "a.en"]
    assert (home / "SHA256SUMS").read_text() == f"{SHA256}  a.en\n"
    get(one_file, tmp_path)
    assert len(server.ranges) == 1
    (home / "a.en").write_bytes(b"damaged")
    get(one_file, tmp_path)
    assert (home / "a.en").read_bytes() == TEXT


@pytest.mark.parametrize(
    "error",
    [None, ConnectionResetError(104, "reset by peer"), TimeoutError("timed out"), ssl.SSLError("bad record")],
    ids=str,
)
@pytest.mark.parametrize("serves_ranges", [True, False])
def test_an_interrupted_download_is_resumed(server, one_file, tmp_path, monkeypatch, error, serves_ranges):
    """Interrupted after 1000 bytes: by the server, or by an error of the connection."""
    server.serves_ranges, server.cut_after = serves_ranges, 1000
    read = http.client.HTTPResponse.read

    def read_or_fail(response, size):
        chunk = read(response, size)
        if error and not chunk:
            raise error
        return chunk

    monkeypatch.setattr(http.client.HTTPResponse, "read", read_or_fail)
    with pytest.raises(DownloadError, match=r"interrupted after 1000 bytes .*; run the same command again"):
        get(one_file, tmp_path)
    assert [(path.name, path.stat().st_size) for path in (tmp_path / "one").iterdir()] == [("a.en.gz.part", 1000)]
    monkeypatch.undo()
    assert (get(one_file, tmp_path) / "a.en").read_bytes() == TEXT
    assert server.ranges == [None, "bytes=1000-"]


def test_a_complete_download_is_not_fetched_twice(server, one_file, tmp_path):
    whole, part = server.files["/a.en.gz"], tmp_path / "a.en.gz.part"
    part.write_bytes(whole)
    fetch(f"{server.address}/a.en.gz", part)
    assert part.read_bytes() == whole and server.ranges == [f"bytes={len(whole)}-"]


def test_a_part_longer_than_the_file_is_deleted(server, one_file, tmp_path):
    (tmp_path / "a.en.gz.part").write_bytes(server.files["/a.en.gz"] + b"more")
    with pytest.raises(DownloadError, match="416"):
        fetch(f"{server.address}/a.en.gz", tmp_path / "a.en.gz.part")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [gzip.compress(b"another text\n"), b"<html>not gzip</html>"], ids=["gz", "html"])
def test_a_wrong_file_is_refused_and_deleted(server, one_file, tmp_path, content):
    server.files["/a.en.gz"] = content
    with pytest.raises(DownloadError, match="SHA-256|intact"):
        get(one_file, tmp_path)
    assert list((tmp_path / "one").iterdir()) == []


def test_an_unpublished_checksum_is_recorded_and_verified_later(server, one_file, tmp_path, capsys):
    unpublished = dataclasses.replace(one_file, files=(dataclasses.replace(one_file.files[0], sha256=""),))
    home = get(unpublished, tmp_path)
    assert "no published checksum" in capsys.readouterr().out
    (home / "a.en").unlink()
    server.files["/a.en.gz"] = gzip.compress(b"the file has changed\n")
    with pytest.raises(DownloadError, match="must have the SHA-256 .* delete SHA256SUMS"):
        get(unpublished, tmp_path)


def test_a_missing_address_and_an_unreachable_server_are_reported(server, one_file, tmp_path):
    server.files.clear()
    with pytest.raises(DownloadError, match="a.en.gz: the server must send the file, got 404"):
        get(one_file, tmp_path)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/a.en.gz"
    with pytest.raises(DownloadError, match="cannot be reached .*refused.*--from FOLDER"):
        fetch(address, tmp_path / "part")


def test_files_from_a_folder_are_verified_and_copied(server, one_file, tmp_path):
    source = tmp_path / "source"
    (source / "one").mkdir(parents=True)
    (source / "one" / "a.en").write_bytes(TEXT)
    home = copy_from(source, one_file, tmp_path / "to")
    assert (home / "a.en").read_bytes() == TEXT
    assert server.ranges == []
    (source / "one" / "a.en").write_bytes(TEXT + b"one more\n")
    with pytest.raises(DownloadError, match="must have the SHA-256"):
        copy_from(source, one_file, tmp_path / "other")
    assert not any(path.is_file() for path in (tmp_path / "other").rglob("*"))


@needs("POSIX")
def test_a_link_planted_in_a_shared_folder_is_never_written_through(server, one_file, tmp_path):
    """Neither where files are unpacked, nor a file, nor the checksums, nor an unfinished download."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "a.en").write_bytes(b"precious")
    (tmp_path / "file").write_bytes(b"precious")
    home = tmp_path / "to" / "one"
    home.mkdir(parents=True)
    (home / ".unpacking").symlink_to(tmp_path / "precious")
    (home / f".unpacking.{'0' * 16}.partial").symlink_to(tmp_path / "precious")
    for name in ("a.en", "SHA256SUMS"):
        (home / name).symlink_to(tmp_path / "file")
    (tmp_path / "a.en").write_bytes(TEXT)
    copy_from(tmp_path, one_file, tmp_path / "to")
    assert (home / "a.en").read_bytes() == TEXT and not (home / "SHA256SUMS").is_symlink()
    (home / "a.en").unlink()
    (home / "a.en.gz.part").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="a.en.gz.part"):
        get(one_file, tmp_path / "to")
    assert (tmp_path / "file").read_bytes() == b""
    assert (tmp_path / "precious" / "a.en").read_bytes() == b"precious"


def test_an_archive_in_the_folder_is_unpacked_and_a_missing_one_named(server, one_file, tmp_path):
    with pytest.raises(DownloadError, match="must contain a.en or a.en.gz"):
        copy_from(tmp_path, one_file, tmp_path / "to")
    (tmp_path / "a.en.gz").write_bytes(server.files["/a.en.gz"])
    assert (copy_from(tmp_path, one_file, tmp_path / "to") / "a.en").read_bytes() == TEXT


def test_the_license_is_shown_before_anything_is_downloaded(server, one_file, tmp_path, monkeypatch, refused):
    monkeypatch.setattr(__main__, "find", lambda name: one_file)
    server.files.clear()
    assert "license: a license" in refused(main(["get", "one", "--to", str(tmp_path)]), "got 404")


def test_a_corpus_of_several_archives_is_resumed_archive_by_archive(server, tmp_path):
    files = [DataFile(f"{name}.en", f"{server.address}/{name}.en.gz") for name in "ab"]
    two = DataSet("two", "text", "a license", "recorded", "90 kB", tuple(files))
    good = gzip.compress(TEXT)
    server.files |= {"/a.en.gz": good, "/b.en.gz": good[:-2000]}  # cut short, although the server's length is right
    with pytest.raises(DownloadError, match="b.en.gz.part: must be an intact archive"):
        get(two, tmp_path)
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["SHA256SUMS", "a.en"]
    server.files["/b.en.gz"] = good
    assert (get(two, tmp_path) / "b.en").read_bytes() == TEXT
    assert len(server.ranges) == 3  # a.en once, b.en twice
