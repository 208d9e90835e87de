"""JSON objects over a connection, one a line: how ranks and their supervisor talk."""

import json

LONGEST_LINE = 1 << 20
"""Bytes of a line; what has no end by then is not from a rank."""


def encode(**message: object) -> bytes:
    return json.dumps(message).encode("utf-8") + b"\n"


def decode(line: bytes) -> dict:
    """The object of a line; ValueError if there is none."""
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError(f"must be an object, got {type(message).__name__}")
    return message


def printable(text: str, longest: int) -> str:
    """``text`` as one line for a terminal: control characters escaped, and cut to ``longest`` characters."""
    text = " ".join(text[: longest + 1].split("\n"))
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."
