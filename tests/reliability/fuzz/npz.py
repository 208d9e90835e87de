"""Damage to ``.npz`` files: to their bytes, or to entries, arrays and headers, with correct checksums."""

import io
import json
import zipfile
import zlib
from functools import lru_cache
from random import Random

import numpy as np

from .mutations import altered, damaged, damaged_text

DTYPES = "<f4 <f8 >f4 <f2 <i4 |u1 <c8 |b1 <U3 |S3 <M8[s] |V4 |O".split()
DESCRIPTIONS = [[("a", "<f4"), ("b", "|O")], [("a", "<f4", 2**31)], "<f4" * 50, 4, None, ("<f4", 2**40)]
SHAPES = [(), (0,), (1,), (-1,), (1, 1), (2**31,), (2**40,), (2**62, 2), (0, 2**62), (10**30,), (True,), ("x",), 7]
LARGE = bytes(64 << 20)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npy_header(descr: object, fortran_order: object, shape: object) -> bytes:
    """The header of a .npy file, which need not describe an array that NumPy supports."""
    text = repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + min(len(text), 0xFFFF).to_bytes(2, "little") + text


def damaged_checkpoint(rng: Random, data: bytes, other: bytes) -> bytes:
    """A checkpoint after one kind of damage, most often to the values of its header."""
    return rng.choice((damaged, _header, _header, _header, _arrays, _entries))(rng, data, other)


@lru_cache
def _parts(data: bytes) -> tuple[tuple[str, bytes], ...]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return tuple((name, archive.read(name)) for name in archive.namelist())


def _entries_of(data: bytes) -> dict[str, bytes]:
    return dict(_parts(data))


def _packed(entries: list[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file with correct checksums. Names may occur twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing, compresslevel=1) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return file.getvalue()


def _header(rng: Random, data: bytes, _: bytes) -> bytes:
    """Other values in the header, in JSON or not."""
    entries = _entries_of(data)
    text = bytes(np.load(io.BytesIO(entries["header.npy"])))
    if rng.random() < 0.8:
        header = json.loads(text)
        where = rng.choice([None, None, "config", "table", "progress"])
        text = json.dumps(altered(rng, header) if where is None else header | {where: altered(rng, header[where])})
        text = text.encode()
    else:
        text = damaged_text(rng, text)
    entries["header.npy"] = npy(np.frombuffer(text, np.uint8))
    return _packed(list(entries.items()))


def _arrays(rng: Random, data: bytes, other: bytes) -> bytes:
    """Arrays of another type, shape or order, and headers of arrays that do not exist."""
    entries = _entries_of(data)
    for name in rng.sample(sorted(entries), rng.choice((1, 1, 2, 5))):
        array, change = np.load(io.BytesIO(entries[name])), rng.randrange(9)
        if change == 0:
            entries[name] = npy_header(rng.choice(DTYPES), False, rng.choice(SHAPES)) + array.tobytes()
        elif change == 1:
            descr = rng.choice(
                [[("a", "<f4"), ("b", "|O")], [("a", "<f4", 2**31)], "<f4" * 50, 4, None, ("<f4", 2**40)]
            )
            entries[name] = npy_header(descr, rng.choice([True, 0, None]), array.shape) + array.tobytes()
        elif change == 2:
            with np.errstate(all="ignore"):
                entries[name] = npy(array.astype(rng.choice("<f4 <f8 >f4 >f8 <i8 |u1 <f2".split())))
        elif change == 3:
            entries[name] = npy(array[None] if rng.random() < 0.5 else array[:, None])
        elif change == 4:
            entries[name] = npy(array[: rng.randrange(len(array) + 1)])
        elif change == 5 and len(array):
            array[rng.randrange(len(array))] = rng.choice((0, 1, 255)) if array.dtype == np.uint8 else np.nan
            entries[name] = npy(array)
        elif change == 6:
            entries[name] = npy(np.array([rng, array], dtype=object)) if rng.random() < 0.2 else b""
        elif change == 7:
            entries[name] = damaged(rng, entries[name])
        else:
            entries[name] = _entries_of(other).get(name, b"")
    return _packed(list(entries.items()))


def _entries(rng: Random, data: bytes, other: bytes) -> bytes:
    """Entries duplicated, renamed, removed, added, compressed, or of a wrong stated size."""
    entries, change = list(_entries_of(data).items()), rng.randrange(8)
    chosen = rng.randrange(len(entries))
    name, content = entries[chosen]
    if change == 0:
        entries.insert(rng.randrange(6), (name, rng.choice([content, *_entries_of(other).values()])))
    elif change == 1:
        names = [
            "",
            ".npy",
            "x.npy",
            "../x.npy",
            "/x.npy",
            name[:-4],
            name.upper(),
            "a/" + name,
            "a" * 70000,
            "\ud7ff.npy",
        ]
        entries[chosen] = (rng.choice(names)[:60000], content)
    elif change == 2:
        del entries[chosen]
    elif change == 3:
        entries.append((rng.choice(["junk.npy", "junk", "header", name[:-4]]), content))
    elif change == 4:
        return _packed(entries, rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
    elif change == 5 and rng.random() < 0.02:  # a decompression bomb, in an entry that is read or in one that is not
        large = npy_header("<f4", False, (len(LARGE) // 4,)) + LARGE
        entries[chosen] = (rng.choice([name, "junk.npy"]), large)
        return _packed(entries, zipfile.ZIP_DEFLATED)
    else:
        return _misstated(rng, _packed(entries))
    return _packed(entries)


def _misstated(rng: Random, data: bytes) -> bytes:
    """A zip file with another value in one field of the central directory or of its end record."""
    changed = bytearray(data)
    begin = data.index(b"PK\x01\x02") if rng.random() < 0.7 else data.index(b"PK\x05\x06")
    offset = rng.choice((4, 6, 8, 10, 12, 16, 20, 24, 28, 30, 32, 34, 36, 38, 42))
    value = rng.choice((0, 1, 2, 0xFFFF, 2**31, 2**32 - 1, zlib.crc32(data), rng.getrandbits(32)))
    width = rng.choice((2, 4))
    changed[begin + offset : begin + offset + width] = (value % 256**width).to_bytes(width, "little")
    return bytes(changed[: len(data)])
