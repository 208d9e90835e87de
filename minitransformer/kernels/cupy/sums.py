"""Sums in a fixed order: over the rows of a matrix, and of all squares of a vector."""

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import THREADS, blocks_for, launch
from minitransformer.kernels.destination import NEW, Destination
from minitransformer.kernels.precision import computed_dtype

PART_ROWS = 512  # rows that a block sums if there are many: few parts are left for a second pass
MAX_PARTS = 64
MAX_BLOCKS = 2048  # of sum_of_squares


def sum_rows(x: Array, to: Destination = NEW) -> Array:
    """y_j = sum_i x_ij, (n, width) to (width,), in the dtype used for sums"""
    x = _few_rows(x)
    return _into(x, x.shape[1], to, NEW)[0]


def sum_rows_side_by_side(x: Array, split: int, to_first: Destination, to_rest: Destination) -> tuple[Array, Array]:
    """The sums over the rows of x[:, :split] and of x[:, split:]"""
    return _into(_few_rows(x), split, to_first, to_rest)


def _few_rows(x: Array) -> Array:
    """A matrix with the same sums of columns, and so few rows that they are added at once."""
    n_rows, width = x.shape
    parts = min(MAX_PARTS, n_rows // PART_ROWS)
    if parts <= 1:
        return x
    y = get_array_module(x).empty((parts, width), computed_dtype(x.dtype))
    _launch(x, y, None, width, parts)
    return y


def _into(x: Array, split: int, to_first: Destination, to_rest: Destination) -> tuple[Array, Array]:
    xp, dtype, width = get_array_module(x), computed_dtype(x.dtype), x.shape[1]
    first, rest = (
        xp.empty(size, dtype) if to.array is None else to.array
        for to, size in ((to_first, split), (to_rest, width - split))
    )
    _launch(x, first, rest, split, 1, to_first.add, to_rest.add)
    return first, rest


def _launch(x: Array, y: Array, rest: Array | None, split: int, parts: int, *add: bool) -> None:
    n_rows, width = x.shape
    arguments = (x, y, rest, n_rows, width, -(-n_rows // parts), split, *(add or (False, False)))
    launch("sums", "sum_rows", (blocks_for(width, 32), parts), (32, 32), arguments, x.dtype)


def sum_of_squares(x: Array) -> Array:
    """sum_i x_i^2, (n,) to (), float64: it stays on the device"""
    blocks = min(MAX_BLOCKS, blocks_for(len(x)))
    parts = get_array_module(x).empty((blocks, 1), np.float64)
    launch("sums", "sum_squares", (blocks,), (THREADS,), (x, parts, len(x)), x.dtype)
    return sum_rows(parts).reshape(())
