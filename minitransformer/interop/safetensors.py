"""The safetensors format: arrays by name, without pickle.

Eight bytes (the length of the header, little-endian), a header in JSON, ``{name: {dtype, shape, data_offsets}}``, then
the arrays' bytes one after the other.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from minitransformer.checkpoints.header import MAX_AXES
from minitransformer.errors import DataError, printable, quote
from minitransformer.files import write_atomically

MAX_HEADER = 100_000_000
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1"}
"""Types of arrays that NumPy has; ``BF16`` is read too, as float32."""


def read_safetensors(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name; those in half precision become float32.

    Raises:
        DataError: no such file, or one that is not as its header says; the message names the array.
    """
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        header, begin = _header(data)
        header.pop("__metadata__", None)
        spans = [_span(name, facts, len(data) - begin) for name, facts in header.items()]
        end = 0
        for first, last, name in sorted(spans):
            if first != end:
                raise ValueError(f"{quote(name, 60)} begins at {first}, where the one before it ends at {end}")
            end = last
        if end != len(data) - begin:
            raise ValueError(f"its arrays end at {end} of {len(data) - begin}")
        arrays = {name: _array(header[name], data[begin + first : begin + last]) for first, last, name in spans}
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = printable(str(error), 200)  # numbers in it may have thousands of digits
        raise DataError(f"{path}: must be a safetensors file, got a damaged or foreign one ({reason})") from error
    return arrays


def _header(data: np.ndarray) -> tuple[dict, int]:
    """(header, where the arrays begin)"""
    length = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or length > min(MAX_HEADER, len(data) - 8):
        raise ValueError(f"its header should have {length} bytes")
    header = json.loads(data[8 : 8 + length].tobytes().decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    return header, 8 + length


def _span(name: str, facts: dict, size: int) -> tuple[int, int, str]:
    """(first byte, byte after the last, name) of an array, counted from the end of the header."""
    first, last = facts["data_offsets"]
    shape = facts["shape"]
    if len(shape) > MAX_AXES or not all(type(number) is int and number >= 0 for number in (first, last, *shape)):
        raise ValueError(f"{quote(name, 60)} has the shape {quote(shape, 60)} at {quote([first, last], 60)}")
    itemsize = 2 if facts["dtype"] == "BF16" else np.dtype(DTYPES[facts["dtype"]]).itemsize
    if last > size or last - first != math.prod(shape) * itemsize:
        raise ValueError(
            f"{quote(name, 60)} has the bytes {first} to {last} of {size} for the shape {quote(shape, 60)}"
        )
    return first, last, name


def _array(facts: dict, data: np.ndarray) -> np.ndarray:
    shape = tuple(facts["shape"])
    if facts["dtype"] == "BF16":  # the upper half of a float32
        return (np.frombuffer(data.tobytes(), "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    array = np.frombuffer(data.tobytes(), DTYPES[facts["dtype"]]).reshape(shape)
    return array.astype(np.float32) if facts["dtype"] == "F16" else array


def write_safetensors(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays whole or not at all.

    Raises:
        ConfigError, OSError: as `write_atomically`.
    """
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    header, place = {}, 0
    for name, array in arrays.items():
        kind = names[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of eight

    def write(file: BinaryIO) -> None:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())

    write_atomically(path, write)
