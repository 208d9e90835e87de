"""A headless Chromium that opens a page, moves the mouse and types, by the DevTools protocol through a pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe".split()
TIMEOUT = 60
"""Seconds after which an answer is missed."""


def _pipe() -> list[int]:
    """A pipe whose ends are not the numbers 3 and 4, by which Chromium knows its own."""
    import fcntl

    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    for end in low:
        os.close(end)
    return high


class Browser:
    """One window of 1000 x 700 pixels.

    Attributes:
        requests: addresses of everything that the pages asked for.
    """

    def __init__(self, folder: Path):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if os.name != "posix" or program is None:
            pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is installed")
        commands, self._write = _pipe()
        self._read, answers = _pipe()

        def pass_pipes() -> None:
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        command = [program, *OPTIONS, f"--user-data-dir={folder}", "--window-size=1000,700", "about:blank"]
        with open(folder / "log", "wb") as log:
            self._process = subprocess.Popen(command, stderr=log, stdout=log, preexec_fn=pass_pipes, close_fds=False)
        os.close(commands)
        os.close(answers)
        self._number, self._received, self.requests, self._loaded = 0, b"", [], False
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.send("Target.createTarget", session=False, url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", session=False, targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, session: bool = True, **parameters) -> dict:
        """The answer to one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _receive(self) -> dict:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], TIMEOUT)
            data = os.read(self._read, 1 << 20) if ready else b""
            assert data, "the browser gave no answer"
            self._received += data
        line, _, self._received = self._received.partition(b"\0")
        message = json.loads(line)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self._loaded |= message.get("method") == "Page.loadEventFired"
        return message

    def open(self, path: Path) -> None:
        """Show a file, and wait until it has been loaded."""
        self._loaded = False
        self.send("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._receive()

    def evaluate(self, expression: str) -> object:
        """The value of a JavaScript expression; of a promise, what it resolves to."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point_at(self, element: str, click: bool = False) -> None:
        """Move the mouse to the middle of the element that a JavaScript expression gives."""
        x, y = self.evaluate(
            f"(box => [box.x + box.width / 2, box.y + box.height / 2])(({element}).getBoundingClientRect())"
        )
        for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def press(self, key: str) -> None:
        """Press a key by its name, such as ArrowDown."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            options = {"windowsVirtualKeyCode": codes[key], **(text if kind == "keyDown" else {})}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, **options)

    def screenshot(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot")["data"])

    def close(self) -> None:
        """Ends Chromium, which removes the folder of its socket in TMPDIR only if it is asked to."""
        with suppress(AssertionError, OSError, subprocess.TimeoutExpired):
            self.send("Browser.close", session=False)
            self._process.wait(TIMEOUT)
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
