"""The zip archive of a checkpoint: how it is written, and how it is read, even if a stranger made it."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from minitransformer.errors import quote

VECTORS = ("parameters", "adam_m", "adam_v")
PACKED = ("codes", "scales")
ENTRIES = ("header", "tokenizer", *VECTORS, *PACKED)
MAX_HEADER = 1 << 22
"""Maximum bytes of a header: a model of 1,000 layers has one of about 3 million."""


def write_entries(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """As `numpy.savez` does it, except that the archive is closed here when the disk is full.

    NumPy before 2.4 leaves that to the garbage collector, which prints the traceback of a second error.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_entries(path: str | Path, unwanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The arrays of the file but the ``unwanted`` ones; ValueError, or another error, if it is not a checkpoint.

    No entry takes more memory than the file has bytes: `numpy.load` would allocate what the header of an array states.
    """
    size = Path(path).stat().st_size
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if len(entries) < len(archive.infolist()) or not entries.keys() <= set(ENTRIES):
            raise ValueError(f"its entries are {quote(', '.join(archive.namelist()), 60)}")
        return {name: _array(archive, entry, size) for name, entry in entries.items() if name not in unwanted}


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> np.ndarray:
    """The array in an entry of a file of ``size`` bytes."""
    # Compressed, it might be a thousand times as long as in the file.
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size:
        raise ValueError(f"{entry.filename} has {entry.file_size} bytes, compressed or beyond the end of the file")
    if entry.filename == "header.npy" and entry.file_size > MAX_HEADER:
        raise ValueError(f"its header has {entry.file_size} bytes, more than {MAX_HEADER}")
    with archive.open(entry) as file:
        np.lib.format.read_magic(file)
        try:
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        except MemoryError as error:  # Python's parser raises it for thousands of signs
            raise ValueError(f"{entry.filename} has a header that describes no array") from error
        if file.tell() + math.prod(shape) * dtype.itemsize != entry.file_size:
            raise ValueError(f"{entry.filename} has {entry.file_size} bytes for an array of shape {shape}")
    with archive.open(entry) as file:  # from its start, so that its CRC is checked
        return np.lib.format.read_array(file, allow_pickle=False)
