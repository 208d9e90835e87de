"""JSON objects over a connection, one a line: how ranks and their supervisor talk."""

import json

MAX_LINE = 1 << 20
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
