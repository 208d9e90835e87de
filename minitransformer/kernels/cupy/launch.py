"""How a kernel is started: compiled when it is first needed, its arguments brought into the one form they have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from minitransformer.backend import Array
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.source import options_of, source_of

THREADS = 256  # of a block, where each thread works for itself


class Counter:
    """Launches of kernels and products of this folder since the start; the array library's own are not among them."""

    launches = 0


class Strided:
    """An array that a kernel reads by strides that it is told: it need not be contiguous."""

    def __init__(self, array: Array):
        self.array = array


def launch(
    file: str,
    kernel: str,
    blocks: tuple[int, ...],
    threads: tuple[int, ...],
    arguments: tuple,
    dtype: Any,
    **names: int,
) -> None:
    """Start ``kernel`` of ``file.cu``, compiled for activations of ``dtype``.

    arguments: contiguous arrays (None: a null pointer), whole numbers and real numbers
    names: constants that the source leaves open
    """
    Counter.launches += 1
    function = compiled(file, kernel, np.dtype(dtype).name, tuple(sorted(names.items())))
    function(blocks, threads, tuple(_argument(each, kernel) for each in arguments))


@cache
def compiled(file: str, kernel: str, dtype: str, names: tuple[tuple[str, int], ...]) -> Callable:
    """The kernel as a function of (blocks, threads, arguments); the compiled code is kept on disk by CuPy."""
    return _module(file, dtype, names).get_function(kernel)


@cache
def _module(file: str, dtype: str, names: tuple[tuple[str, int], ...]) -> Any:
    import cupy

    return cupy.RawModule(code=source_of(file), options=options_of(dtype, names))


def _argument(value: Any, kernel: str) -> Any:
    """Whole numbers become 64-bit ones and real numbers double precision, as every kernel expects."""
    if isinstance(value, Strided):
        return value.array
    if value is None:
        return np.int64(0)
    if isinstance(value, bool | int | np.integer):
        return np.int64(value)
    if isinstance(value, float):
        return np.float64(value)
    if not value.flags.c_contiguous:
        raise ShapeError(f"{kernel}: arrays given to a kernel must be contiguous, got strides {value.strides}")
    return value


def blocks_for(n: int, per_block: int = THREADS) -> tuple[int]:
    """A grid of blocks that reaches ``n`` pieces of work."""
    return (-(-n // per_block),)


def pieces(n_rows: int, width: int) -> int:
    """Pieces of eight neighbouring values that the rows consist of."""
    return n_rows * -(-width // 8)


def fits_words(width: int, *arrays: Array | None) -> bool:
    """Whether all rows can be moved in words of 16 bytes (see common.cuh)."""
    return width % 8 == 0 and all(address(array) % 16 == 0 for array in arrays if array is not None)


def address(array: Array) -> int:
    """Where the array's memory begins."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
