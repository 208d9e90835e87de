"""Damage to bytes, text, JSON values and ``.npz`` files, drawn from a ``random.Random`` and thus repeatable."""

import io
import json
import re
import zipfile
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

import numpy as np

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NUMBERS = [
    *b"0 -1 -0 00 1 2 7 255 65536 2147483648 4294967296 9223372036854775808 1e999 nan -Infinity 0x10 1_0 1.".split(),
    b"1" + b"0" * 30,
    b"9" * 5000,
    "٣".encode(),  # a digit to Python's int, though not in ASCII
]
CHARACTERS = [
    *(bytes([code]) for code in (0, 1, 7, 8, 9, 10, 11, 12, 13, 27, 31, 127)),
    *(each.encode() for each in "\x85 \xa0 \u2028 \u202e \u3000 \ufeff 😀 \u0301\u0316 ␣ </w> @@".split(" ")),
    *(b"\xed\xa0\x80", b"\xff\xfe", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xc3"),  # no UTF-8
    *b"\\ \\xff \\ud800 \" ' # = [ ] { } %s .. / C:\\ , : null true [[a]] \x1b[31m".split(b" "),
]
VALUES: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**64, 10**30, 10**4000),
    *(0.5, -0.0, 1e-300, 1e308, float("nan"), float("-inf")),
    *("", "x", "0", "\0", "\n", "\x1b[31m", "\u2028", "\ud800", "../../x", "/etc/passwd", "a" * 1000, "float32"),
    *([], [0], [[]], [-1], {}, {"x": 0}, {"": {}}, [None] * 1000),
)
NESTED = (b"[", b'{"a":', b"{a=", b"a.")
LONGEST = 1 << 17
"""Bytes that a repetition adds at most."""
DTYPES = ("<f4", "<f8", ">f4", "<f2", "<i4", "|u1", "<c8", "<U3", "<M8[s]", "|V4", "|O", [("a", "<f4", 2**31)], 4, None)
SHAPES = ((), (0,), (-1,), (1, 1), (2**31,), (2**40,), (2**62, 2), (0, 2**62), (10**30,), (True,), ("x",), 7)


def times(rng: Random) -> range:
    """Mostly one change, sometimes up to eight."""
    return range(rng.choice((1, 1, 1, 2, 3, 8)))


def damaged(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """``data`` with some parts replaced; ``other`` is a valid file from which parts may be taken."""
    for _ in times(rng):
        begin, end = part_of(rng, data)
        part = data[begin:end]
        first, last = part_of(rng, other)
        replacements = (
            bytes(byte ^ (1 << rng.randrange(8)) for byte in part),
            rng.choice((b"\0", b"\xff", b"\x80", b"9", b" ", b"\n")) * len(part),
            rng.randbytes(len(part)),
            b"",
            part * min(rng.choice((2, 3, 100, 10_000)), 1 + LONGEST // max(1, len(part))),
            other[first:last],
            part + rng.choice(CHARACTERS) * rng.choice((1, 1, 1, 300)),
        )
        data = data[:begin] + rng.choice(replacements) + (b"" if rng.random() < 0.08 else data[end:])
    return data


def damaged_text(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """As `damaged`, by changes that keep more of the syntax: of numbers, lines and single characters."""
    for _ in times(rng):
        where, change = rng.randrange(len(data) + 1), rng.randrange(4)
        number = NUMBER.search(data, where) or NUMBER.search(data)
        if change == 0 and number:
            data = data[: number.start()] + rng.choice(NUMBERS) + data[number.end() :]
        elif change == 1:
            lines = data.split(b"\n")
            here = rng.randrange(len(lines))
            new = rng.choice((lines, (other or data).split(b"\n")))
            lines[here : here + rng.randrange(3)] = [rng.choice(new)] * rng.choice((0, 1, 1, 50))
            data = b"\n".join(lines)
        elif change == 2:
            data = data[:where] + rng.choice(NESTED) * rng.choice((10, 100, 1000, 50_000)) + data[where:]
        else:
            data = data[:where] + rng.choice(CHARACTERS) * rng.choice((1, 1, 1, 300)) + data[where:]
    return data


def part_of(rng: Random, data: bytes) -> tuple[int, int]:
    """Begin and end of a part of ``data``, mostly a short one."""
    begin, longest = rng.randrange(len(data) + 1), rng.choice((1, 4, 16, 256, len(data)))
    return begin, min(len(data), begin + rng.randint(0, max(1, longest)))


def changed(rng: Random, valid: Sequence[bytes]) -> bytes:
    """One of some valid files, after changes of either kind or, rarely, unchanged."""
    data, other = rng.choice(valid), rng.choice(valid)
    change = rng.choice((damaged, damaged_text, damaged_text))
    return change(rng, data, other) if rng.random() < 0.98 else data


def altered(rng: Random, value: Any) -> Any:
    """A copy of a JSON value with some of its parts replaced, removed, renamed, shifted or exchanged."""
    value = deepcopy(value)
    for _ in times(rng):
        holders = [each for each in containers(value) if each]
        if not holders:
            return deepcopy(rng.choice(VALUES))
        here, there = rng.choice(holders), rng.choice(holders)
        key, other = (rng.choice(list(each) if isinstance(each, dict) else range(len(each))) for each in (here, there))
        old, change = here[key], rng.randrange(6)
        if change == 0:
            del here[key]
        elif change == 1 and isinstance(here, dict):
            here[rng.choice(("x", f"{key} ", "", "\0", "\ud800", "a" * 1000))] = here.pop(key)
        elif change == 2 and isinstance(old, int | float) and abs(old) < 2**70:
            here[key] = rng.choice((old + 1, old - 1, -2 * old, old + (1 << 20), 1e300 * old, str(old)))
        elif change == 3:
            here[key] = deepcopy(there[other])
        else:
            here[key] = deepcopy(rng.choice(VALUES))
    return value


def containers(value: Any) -> list[dict | list]:
    """All objects and lists in a JSON value."""
    found = [value] if isinstance(value, dict | list) else []
    for each in found:  # grows while it is read
        found.extend(
            part for part in (each.values() if isinstance(each, dict) else each) if isinstance(part, dict | list)
        )
    return found


def npy(descr: object, shape: object, data: bytes) -> bytes:
    """A file of NumPy's format, whose header need not describe an array that NumPy supports."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def entries_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(entries: Sequence[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file with correct checksums. Names may occur twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing, compresslevel=1) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return file.getvalue()


def damaged_checkpoint(rng: Random, data: bytes, other: bytes) -> bytes:
    """A checkpoint after one kind of damage, most often to the values of its header, with correct checksums."""
    if rng.random() < 0.2:
        return damaged(rng, data, other)
    entries = entries_of(data)
    name, change = rng.choice(list(entries)), rng.randrange(8)
    if change < 4:
        text = bytes(np.load(io.BytesIO(entries["header.npy"])))
        where, header = rng.choice((None, "config", "table", "progress")), json.loads(text)
        header = altered(rng, header) if where is None else header | {where: altered(rng, header[where])}
        text = damaged_text(rng, text) if rng.random() < 0.2 else json.dumps(header).encode()
        entries["header.npy"] = npy("|u1", (len(text),), text)
    elif change == 4:
        array = np.load(io.BytesIO(entries[name]))
        entries[name] = npy(rng.choice(DTYPES), rng.choice((array.shape, *SHAPES)), array.tobytes())
    elif change == 5:
        entries[name] = rng.choice((damaged(rng, entries[name]), entries_of(other).get(name, b"")))
    elif change == 6:
        content = entries.pop(name)
        entries |= {each: content for each in rng.choice(((), ("../x.npy",), ("",), (name, "junk.npy"), (name[:-4],)))}
    else:
        kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
        twice = [(name, entries[name])] * rng.randrange(2)
        return packed([*entries.items(), *twice], rng.choice(kinds))
    return packed(list(entries.items()))
