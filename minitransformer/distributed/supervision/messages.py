"""JSON objects over a socket, one a line: how ranks and their supervisor talk."""

import json
import socket
import threading

LONGEST_LINE = 1 << 20
"""Bytes of a line; what has no end by then is not from a rank."""


class MessageSocket:
    """A socket that carries JSON objects. ``send`` may be called by any thread, ``receive`` by one."""

    def __init__(self, connection: socket.socket, send_timeout: float):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(send_timeout)
        self.socket = connection
        self._rest = b""
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, **message: object) -> None:
        """Send one object; OSError if the other side is gone."""
        with self._lock:
            self.socket.sendall(json.dumps(message).encode("utf-8") + b"\n")

    def receive(self) -> list[dict] | None:
        """The objects that have arrived (none, if a line is not complete yet); None when the other side has closed.

        Raises:
            ValueError: what comes is not from a rank.
        """
        try:
            received = self.socket.recv(1 << 16)
        except TimeoutError:
            return []
        except OSError:
            return None
        if not received:
            return None
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ValueError("too long")
        try:
            messages = [json.loads(line) for line in lines]
        except RecursionError as error:
            raise ValueError("too deep") from error
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("not an object")
        return messages

    def close(self) -> None:
        self.socket.close()


def printable(text: str, longest: int) -> str:
    """``text`` as one line for a terminal: control characters escaped, and cut to ``longest`` characters."""
    text = " ".join(text[: longest + 1].split("\n"))
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."
