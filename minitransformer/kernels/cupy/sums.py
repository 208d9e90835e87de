"""Sums in a fixed order: over the rows of a matrix, and of all squares of a vector."""

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import THREADS, blocks_for, launch
from minitransformer.kernels.precision import compute_dtype

PART_ROWS = 512  # rows that a block sums if there are many: few parts are left for a second pass
MAX_PARTS = 64
MAX_BLOCKS = 2048  # of sum_of_squares


def sum_rows(x: Array) -> Array:
    """y_j = sum_i x_ij, (n, width) to (width,), in the dtype used for sums"""
    n_rows, width = x.shape
    parts = min(MAX_PARTS, n_rows // PART_ROWS) or 1
    y = get_array_module(x).empty((parts, width), compute_dtype(x.dtype))
    arguments = (x, y, n_rows, width, -(-n_rows // parts))
    launch("sums", "sum_rows", (blocks_for(width, 32), parts), (32, 32), arguments, x.dtype)
    return y[0] if parts == 1 else sum_rows(y)


def sum_of_squares(x: Array) -> Array:
    """sum_i x_i^2, (n,) to (), float64: it stays on the device"""
    blocks = min(MAX_BLOCKS, blocks_for(len(x)))
    parts = get_array_module(x).empty((blocks, 1), np.float64)
    launch("sums", "sum_squares", (blocks,), (THREADS,), (x, parts, len(x)), x.dtype)
    return sum_rows(parts).reshape(())
