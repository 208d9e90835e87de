"""Damage to ``.npz`` files: of their bytes, and of their entries, arrays and headers with all sums made right again."""

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
    """The beginning of a .npy file, as it would be for such an array, which NumPy need not know."""
    text = repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + min(len(text), 0xFFFF).to_bytes(2, "little") + text


def damaged_checkpoint(chooser: Random, data: bytes, other: bytes) -> bytes:
    """A checkpoint after one kind of damage, most often to the values of its header."""
    return chooser.choice((damaged, _header, _header, _header, _arrays, _entries))(chooser, data, other)


@lru_cache
def _parts(data: bytes) -> tuple[tuple[str, bytes], ...]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return tuple((name, archive.read(name)) for name in archive.namelist())


def _entries_of(data: bytes) -> dict[str, bytes]:
    return dict(_parts(data))


def _packed(entries: list[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file whose sums are right. Names may occur twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing, compresslevel=1) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return file.getvalue()


def _header(chooser: Random, data: bytes, _: bytes) -> bytes:
    """Other values in the header, in JSON or not."""
    entries = _entries_of(data)
    text = bytes(np.load(io.BytesIO(entries["header.npy"])))
    if chooser.random() < 0.8:
        header = json.loads(text)
        where = chooser.choice([None, None, "config", "table", "progress"])
        text = json.dumps(
            altered(chooser, header) if where is None else header | {where: altered(chooser, header[where])}
        )
        text = text.encode()
    else:
        text = damaged_text(chooser, text)
    entries["header.npy"] = npy(np.frombuffer(text, np.uint8))
    return _packed(list(entries.items()))


def _arrays(chooser: Random, data: bytes, other: bytes) -> bytes:
    """Arrays of another type, shape or order, and headers of arrays that do not exist."""
    entries = _entries_of(data)
    for name in chooser.sample(sorted(entries), chooser.choice((1, 1, 2, 5))):
        array, change = np.load(io.BytesIO(entries[name])), chooser.randrange(9)
        if change == 0:
            entries[name] = npy_header(chooser.choice(DTYPES), False, chooser.choice(SHAPES)) + array.tobytes()
        elif change == 1:
            descr = chooser.choice(
                [[("a", "<f4"), ("b", "|O")], [("a", "<f4", 2**31)], "<f4" * 50, 4, None, ("<f4", 2**40)]
            )
            entries[name] = npy_header(descr, chooser.choice([True, 0, None]), array.shape) + array.tobytes()
        elif change == 2:
            with np.errstate(all="ignore"):
                entries[name] = npy(array.astype(chooser.choice("<f4 <f8 >f4 >f8 <i8 |u1 <f2".split())))
        elif change == 3:
            entries[name] = npy(array[None] if chooser.random() < 0.5 else array[:, None])
        elif change == 4:
            entries[name] = npy(array[: chooser.randrange(len(array) + 1)])
        elif change == 5 and len(array):
            array[chooser.randrange(len(array))] = chooser.choice((0, 1, 255)) if array.dtype == np.uint8 else np.nan
            entries[name] = npy(array)
        elif change == 6:
            entries[name] = npy(np.array([chooser, array], dtype=object)) if chooser.random() < 0.2 else b""
        elif change == 7:
            entries[name] = damaged(chooser, entries[name])
        else:
            entries[name] = _entries_of(other).get(name, b"")
    return _packed(list(entries.items()))


def _entries(chooser: Random, data: bytes, other: bytes) -> bytes:
    """Entries doubled, renamed, dropped, foreign, compressed or of a size that is not theirs."""
    entries, change = list(_entries_of(data).items()), chooser.randrange(8)
    chosen = chooser.randrange(len(entries))
    name, content = entries[chosen]
    if change == 0:
        entries.insert(chooser.randrange(6), (name, chooser.choice([content, *_entries_of(other).values()])))
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
        entries[chosen] = (chooser.choice(names)[:60000], content)
    elif change == 2:
        del entries[chosen]
    elif change == 3:
        entries.append((chooser.choice(["junk.npy", "junk", "header", name[:-4]]), content))
    elif change == 4:
        return _packed(entries, chooser.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
    elif change == 5 and chooser.random() < 0.02:  # a bomb, in an entry that is read or in one that is not
        large = npy_header("<f4", False, (len(LARGE) // 4,)) + LARGE
        entries[chosen] = (chooser.choice([name, "junk.npy"]), large)
        return _packed(entries, zipfile.ZIP_DEFLATED)
    else:
        return _misstated(chooser, _packed(entries))
    return _packed(entries)


def _misstated(chooser: Random, data: bytes) -> bytes:
    """A zip file in which a field of an entry of the directory, or of its end, has another value."""
    changed = bytearray(data)
    begin = data.index(b"PK\x01\x02") if chooser.random() < 0.7 else data.index(b"PK\x05\x06")
    offset = chooser.choice((4, 6, 8, 10, 12, 16, 20, 24, 28, 30, 32, 34, 36, 38, 42))
    value = chooser.choice((0, 1, 2, 0xFFFF, 2**31, 2**32 - 1, zlib.crc32(data), chooser.getrandbits(32)))
    width = chooser.choice((2, 4))
    changed[begin + offset : begin + offset + width] = (value % 256**width).to_bytes(width, "little")
    return bytes(changed[: len(data)])
