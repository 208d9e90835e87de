"""Damage to bytes, to text and to JSON values, drawn from a ``random.Random`` and thus repeatable."""

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

NUMBERS = [
    *b"0 -1 -0 00 1 2 3 7 255 65536 2147483647 2147483648 4294967296 9223372036854775807".split(),
    *(b"18446744073709551616 0.5 1e308 1e999 -1e999 nan NaN inf -Infinity 0x10 1_000 +1 1. .5".split()),
    b"1" + b"0" * 30,
    b"9" * 5000,
    "٣".encode(),  # a digit to Python's int, though not in ASCII
]
"""Replacements of numbers."""

CHARACTERS = [
    *(bytes([code]) for code in (0, 1, 7, 8, 9, 10, 11, 12, 13, 27, 31, 127)),
    *(
        "\x85",
        "\xa0",
        "\u200b",
        "\u2028",
        "\u202e",
        "\u3000",
        "\ufeff",
        "\ufffd",
        "😀",
        "\u0301\u0316",
        "␣",
        "</w>",
        "@@",
    ),
    *(b"\xed\xa0\x80", b"\xff\xfe", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\xe2\x80"),  # no UTF-8
    *("\\", "\\x0a", "\\xff", "\\ud800", '"', "'", "#", "=", "[", "]", "{", "}", "<", ">", "&amp;", "&#1114112;", "%s"),
    *("..", "/", "//", "C:\\", "\r\n", "\n\n", " ", "  ", "\t", ",", ":", "null", "true", "[[a]]", "\x1b[31m"),
]
CHARACTERS = [each if isinstance(each, bytes) else each.encode() for each in CHARACTERS]
"""Insertions: control characters, spaces of all kinds, syntax of the formats, bytes that are not UTF-8."""

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
MAX_REPEATED = 1 << 17
"""Maximum number of bytes that a repetition adds."""


def several(rng: Random) -> range:
    """A range of mostly one change, sometimes up to eight."""
    return range(rng.choice((1, 1, 1, 2, 3, 8)))


def damaged(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """``data`` after some changes; ``other`` is a valid file from which parts may be taken."""
    for _ in several(rng):
        data = rng.choice(CHANGES)(rng, data, other)
    return data


def damaged_text(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """As `damaged`, by changes that keep more of the syntax: of numbers, characters and lines."""
    for _ in several(rng):
        data = rng.choice(TEXT_CHANGES)(rng, data, other)
    return data


def changed(rng: Random, valid: Sequence[bytes]) -> bytes:
    """One of some valid files, after changes of either kind or, rarely, unchanged."""
    data, other = rng.choice(valid), rng.choice(valid)
    change = rng.choice((damaged, damaged_text, damaged_text))
    return change(rng, data, other) if rng.random() < 0.98 else data


def flipped(rng: Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 64)) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwritten(rng: Random, data: bytes, _: bytes) -> bytes:
    begin, end = _span(rng, data)
    fill = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"0", b"9", b" ", b"\n"))
    return data[:begin] + fill * (end - begin) + data[end:]


def randomised(rng: Random, data: bytes, _: bytes) -> bytes:
    begin, end = _span(rng, data)
    return data[:begin] + rng.randbytes(end - begin) + data[end:]


def cut(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def removed(rng: Random, data: bytes, _: bytes) -> bytes:
    begin, end = _span(rng, data)
    return data[:begin] + data[end:]


def repeated(rng: Random, data: bytes, _: bytes) -> bytes:
    begin, end = _span(rng, data)
    times = min(rng.choice((2, 2, 3, 3, 30, 100, 10000)), MAX_REPEATED // max(1, end - begin))
    return data[:end] + data[begin:end] * times + data[end:]


def spliced(rng: Random, data: bytes, other: bytes) -> bytes:
    begin, end = _span(rng, data)
    first, last = _span(rng, other or data)
    return data[:begin] + (other or data)[first:last] + data[end:]


def inserted(rng: Random, data: bytes, _: bytes) -> bytes:
    where = rng.randrange(len(data) + 1)
    return data[:where] + rng.choice(CHARACTERS) * rng.choice((1, 1, 1, 1, 300)) + data[where:]


def nested(rng: Random, data: bytes, _: bytes) -> bytes:
    where, depth = rng.randrange(len(data) + 1), rng.choice((10, 10, 100, 1000, 1000, 50000))
    return data[:where] + rng.choice((b"[", b'{"a":', b"(", b"{a=", b"a.", b"<seg>")) * depth + data[where:]


def renumbered(rng: Random, data: bytes, _: bytes) -> bytes:
    found = NUMBER.search(data, rng.randrange(len(data) + 1)) or NUMBER.search(data)
    if found is None:
        return data
    begin, end = found.span()
    return data[:begin] + rng.choice(NUMBERS) + data[end:]


def relined(rng: Random, data: bytes, other: bytes) -> bytes:
    """Lines swapped, duplicated, removed, emptied, taken from another file or joined."""
    lines, change = data.split(b"\n"), rng.randrange(6)
    here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
    if change == 0:
        lines[here], lines[there] = lines[there], lines[here]
    elif change == 1:
        lines[here:here] = [lines[there]] * rng.choice((1, 1, 50))
    elif change == 2:
        del lines[here]
    elif change == 3:
        lines[here] = b""
    elif change == 4:
        lines[here] = rng.choice((other or data).split(b"\n"))
    else:
        lines[here : here + 2] = [b"".join(lines[here : here + 2])]
    return b"\n".join(lines)


Change = Callable[[Random, bytes, bytes], bytes]
CHANGES: Sequence[Change] = (
    flipped,
    flipped,
    overwritten,
    randomised,
    cut,
    removed,
    repeated,
    spliced,
    inserted,
    renumbered,
    relined,
)
TEXT_CHANGES: Sequence[Change] = (renumbered, renumbered, relined, relined, inserted, inserted, repeated, nested)


def _span(rng: Random, data: bytes) -> tuple[int, int]:
    """Begin and end of a part of ``data``, mostly a short one."""
    begin = rng.randrange(len(data) + 1)
    longest = rng.choice((1, 4, 16, 256, len(data)))
    return begin, min(len(data), begin + rng.randint(0, max(1, longest)))


VALUES: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 2, 3, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**64, 10**30, 10**4000),
    *(0.5, -0.0, 1e-300, 1e30, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "x", "0", "\0", "\n", "\x1b[31m", "\u2028", "\ud800", "../../x", "/etc/passwd", "a" * 1000, "float32"),
    *([], [0], [[]], [0, 0], [-1], {}, {"x": 0}, {"": {}}, [None] * 1000),
)


def altered(rng: Random, value: Any) -> Any:
    """A copy of a JSON value with some of its parts replaced, removed, renamed, duplicated or exchanged."""
    value = json.loads(json.dumps(value))
    for _ in several(rng):
        holders = [each for each in _containers(value) if each]
        if not holders:
            return deepcopy(rng.choice(VALUES))
        _alter(rng, rng.choice(holders), rng.choice(holders))
    return value


def _alter(rng: Random, here: dict | list, there: dict | list) -> None:
    keys = list(here) if isinstance(here, dict) else range(len(here))
    key, change = rng.choice(keys), rng.randrange(8)
    if change < 3:
        here[key] = deepcopy(rng.choice(VALUES))
    elif change == 3:
        del here[key]
    elif change == 4:
        here[key] = _shifted(rng, here[key])
    elif change == 5 and isinstance(here, dict):
        here[rng.choice(["x", key + " ", key.upper(), "", "\0", "\ud800", "a" * 1000])] = here.pop(key)
    elif change == 5:
        here.insert(rng.randrange(len(here) + 1), here[key])
    else:
        other = rng.choice(list(there) if isinstance(there, dict) else range(len(there)))
        here[key] = json.loads(json.dumps(there[other]))


def _shifted(rng: Random, value: Any) -> Any:
    """A number near ``value``; anything else becomes its text."""
    if type(value) is int:
        return value + rng.choice((-1, 1, value, -2 * value, 1 << 20))
    if type(value) is float:
        return value * rng.choice((-1, 2, 1e-3, 1e300))
    return json.dumps(value)


def _containers(value: Any) -> list[dict | list]:
    """All objects and lists in a JSON value."""
    found = [value] if isinstance(value, dict | list) else []
    for each in found:  # grows while it is read
        parts = each.values() if isinstance(each, dict) else each
        found.extend(part for part in parts if isinstance(part, dict | list))
    return found
