"""Sorting by a kernel of its own: CuPy's sort waits for the device, which no CUDA graph can capture."""

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import blocks_for, launch

TILE, DIGITS = 512, 256  # numbers and threads of a block, as in sort.cu


def argsort(numbers: Array, bound: int) -> Array:
    """The order in which the numbers ascend, equal ones as they stand: (n,) to (n,), int64

    bound: all numbers are from 0 to bound - 1; it takes a pass for each eight bits of it
    """
    empty, n = get_array_module(numbers).empty, len(numbers)
    tiles = blocks_for(n, TILE)
    counts, order = empty((tiles + 1, DIGITS), np.int64), None
    for shift in range(0, max(1, (bound - 1).bit_length()), 8):
        ordered = empty(n, np.int64)
        for kernel, blocks, arguments in (
            ("count_digits", tiles, (numbers, order, counts, n, shift)),
            ("sum_counts", 1, (counts, tiles)),
            ("place_numbers", tiles, (numbers, order, counts, ordered, n, shift)),
        ):
            launch("sort", kernel, (blocks,), (DIGITS,), arguments, "float32")
        order = ordered
    return order
