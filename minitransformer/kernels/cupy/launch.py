"""How a kernel is launched: compiled when first needed, its arguments converted to the types that all kernels take."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from minitransformer.backend import Array, address
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.source import options_of, source_of

THREADS = 256  # of a block whose threads work independently


class Counter:
    """Launches of the kernels and products of this folder since the start, without those of the array library."""

    launches = 0


class Strided:
    """An array that a kernel reads by strides: it need not be contiguous."""

    def __init__(self, array: Array):
        self.array = array


def launch(
    file: str,
    kernel: str,
    blocks: tuple[int, ...],
    threads: tuple[int, ...],
    arguments: Sequence,
    dtype: Any,
    **names: int,
) -> None:
    """Start ``kernel`` of ``file.cu``, compiled for activations of ``dtype``.

    arguments: contiguous arrays (None: a null pointer), integers and floats
    names: compile-time constants of the source

    Raises:
        ShapeError: there is nothing to compute, or an array that must be contiguous is not.
    """
    if 0 in blocks:
        raise ShapeError(f"{kernel}: no array may be empty, got a grid of {blocks} blocks")
    Counter.launches += 1
    function = compile_kernel(file, kernel, name_of(dtype), tuple(sorted(names.items())))
    try:
        converted = tuple(map(_argument, arguments))
    except ShapeError as error:
        raise ShapeError(f"{kernel}: {error}") from None
    function(blocks, threads, converted)


def launch_groups(file: str, kernel: str, n_rows: int, width: int, arguments: Sequence, dtype: Any) -> None:
    """As `launch`, with a thread for each group of eight adjacent values; the last of a row may be partial."""
    groups = n_rows * -(-width // 8)
    launch(file, kernel, (blocks_for(groups),), (THREADS,), arguments, dtype)


@cache
def compile_kernel(file: str, kernel: str, dtype: str, names: tuple[tuple[str, int], ...]) -> Callable:
    """The kernel as a function of (blocks, threads, arguments); the compiled code is kept on disk by CuPy."""
    return _module(file, dtype, names).get_function(kernel)


@cache
def _module(file: str, dtype: str, names: tuple[tuple[str, int], ...]) -> Any:
    import cupy

    return cupy.RawModule(code=source_of(file), options=options_of(dtype, names))


CONVERSIONS: dict[type, Callable] = {
    int: np.int64,
    bool: np.int64,
    float: np.float64,
    type(None): lambda none: np.int64(0),
    Strided: lambda strided: strided.array,
}
"""Integers become 64-bit and floats double precision, as every kernel expects."""


def _argument(value: Any) -> Any:
    convert = CONVERSIONS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, np.generic):
        return np.float64(value) if isinstance(value, np.floating) else np.int64(value)
    if not value.flags.c_contiguous:
        raise ShapeError(f"arrays given to a kernel must be contiguous, got strides {value.strides}")
    return value


@cache
def name_of(dtype: Any) -> str:
    """The name, such as float32; cached, as NumPy builds it each time."""
    return np.dtype(dtype).name


def check_arrays(what: str, shape: tuple[int, ...], dtype: Any, *arrays: Array | None) -> None:
    """A kernel sees only addresses: given a shorter array or one of another type, it would read other memory.

    Raises:
        ShapeError: one of the arrays does not have this shape and dtype.
    """
    for array in arrays:
        if array is not None and (array.shape != shape or array.dtype != dtype):
            found = f"{array.shape} and {array.dtype}"
            raise ShapeError(f"{what} must have the shape {shape} and the dtype {name_of(dtype)}, got {found}")


def blocks_for(n: int, per_block: int = THREADS) -> int:
    """The number of blocks for at least ``n`` threads, or ``n`` units, with ``per_block`` in a block."""
    return -(-n // per_block)


def fits_vec16(width: int, *arrays: Array | None) -> bool:
    """Whether all rows can be moved as 16-byte vectors, vec16 (see common.cuh)."""
    return width % 8 == 0 and all(address(array) % 16 == 0 for array in arrays if array is not None)
