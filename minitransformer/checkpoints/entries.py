"""The zip archive of a checkpoint: how it is written, and what it must hold, checked before anything is read."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from minitransformer.errors import quoted

VECTORS = ("parameters", "adam_m", "adam_v")
ENTRIES = ("header", "tokenizer", *VECTORS)
MAX_HEADER = 1 << 22
"""Bytes of the longest header: a model of 1,000 layers has one of about 3 million."""


def write_entries(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """As `numpy.savez` does it, except that the archive is closed here when the disk is full.

    NumPy before 2.4 leaves that to the garbage collector, which prints the traceback of a second error.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """ValueError if an entry is not one of a checkpoint, or if a file of ``size`` bytes cannot hold its array.

    NumPy allocates what the header of an array states, and a compressed entry may be a thousand times its size in the
    file, so both are checked first.
    """
    entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    if len(entries) < len(archive.infolist()) or not entries.keys() <= set(ENTRIES):
        raise ValueError(f"its entries are {quoted(', '.join(archive.namelist()), 60)}")
    for name, entry in entries.items():
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size:
            raise ValueError(f"{name} has {entry.file_size} bytes, compressed or beyond the end of the file")
        if name == "header" and entry.file_size > MAX_HEADER:
            raise ValueError(f"its header has {entry.file_size} bytes, more than {MAX_HEADER}")
        with archive.open(entry) as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError(f"{name} has another version of NumPy's format")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if file.tell() + math.prod(shape) * dtype.itemsize != entry.file_size:
                raise ValueError(f"{name} has {entry.file_size} bytes for an array of shape {shape}")


def matches_checksums(path: str | Path) -> bool:
    """Whether the file is whole: if not, a damaged size may be why reading took so much memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None  # reads in small blocks
    except Exception:
        return False
