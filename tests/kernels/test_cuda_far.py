"""Places beyond 2^31: every kernel finds the last two rows of arrays of 2^31 values as it finds those of small ones.

The arrays have addresses but no memory, except where something is written; of the grid only the last blocks run.
"""

import mmap
import re

import numpy as np
import pytest
from cuda_on_cpu import kernels

from minitransformer.kernels.cupy.launch import _argument
from minitransformer.kernels.cupy.source import options_of, source_of

WIDTH = 64
FAR = 2**31 // WIDTH + 2  # rows; the last two begin at 2^31
NO_DROPOUT = (0, 0, 0, 1.0)
pytestmark = pytest.mark.cuda  # needs packages of the dev extra


def rows(n: int, width: int, dtype: str, seed: int) -> np.ndarray:
    """Zeros, and random numbers in the last two rows."""
    size = n * width * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    found = np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype).reshape(n, width)
    if seed:
        found[-2:] = (100 * np.random.default_rng(seed).standard_normal((2, width))).astype(np.int32).astype(dtype)
    return found


def halves(n: int, seed: int = 0, width: int = WIDTH) -> np.ndarray:
    return rows(n, width, "bfloat16", seed)


def floats(n: int, seed: int = 0, width: int = WIDTH) -> np.ndarray:
    return rows(n, width, "float32", seed)


def groups(n: int) -> tuple:
    """The grid, the block and the last block's number of a kernel with a thread for eight values."""
    blocks = -(-n * WIDTH // 8 // 256)
    return (blocks,), (256,), range(blocks - 1, blocks)


def a_block_for_a_row(n: int, threads: int) -> tuple:
    return (n,), (threads,), range(n - 2, n)


def of_rows(n: int) -> dict:
    """Kernels that go over rows or groups: (file, launch, arguments, arrays whose last rows are compared)"""
    size = (n, WIDTH, 1)
    table = floats(2, 6)
    x, y, z, vector = halves(n, 1), halves(n, 2), halves(n), floats(2, 3)[1]
    means, ids, mask = floats(n, width=1), rows(n, 1, "int64", 4), rows(n, WIDTH, "bool", 0)
    ids[-2:] = [[1], [0]]
    losses = rows(n, 2, "float64", 0)
    return {
        "norm_forward": (
            "norm",
            a_block_for_a_row(n, 32),
            (x, None, vector, vector, y, z, means, WIDTH, 1e-5, 1, *NO_DROPOUT),
            (y, z, means),
        ),
        "residual_dropout": ("dropout", groups(n), (x, y, z, *size, *NO_DROPOUT), (z,)),
        "keep_mask": ("dropout", groups(n), (mask, n, WIDTH, *NO_DROPOUT), (mask,)),
        "bias_relu_dropout": ("feed_forward", groups(n), (x, vector, *size, *NO_DROPOUT), (x,)),
        "add_bias": ("feed_forward", groups(n), (x, vector, *size), (x,)),
        "cast": ("cast", groups(n), (floats(n, 5), None, z, n * WIDTH, 1), (z,)),
        "embed": ("embedding", groups(n), (table, ids, None, z, n, WIDTH, 1, 2.0, 1, *NO_DROPOUT), (z,)),
        "cross_entropy": (
            "projection_loss",
            a_block_for_a_row(n, 512),
            (x, ids, losses, WIDTH, WIDTH, 0.1, -1, 1, 1.0),
            (x, losses),
        ),
    }


def of_sums(n: int) -> dict:
    """Those that sum over rows, and Adam: in some, the first block takes the last rows too, in a later round."""
    x, y, z, far_z, vector = halves(n, 1), halves(n, 2), halves(n), halves(n), floats(2, 3)[1]
    parts, table, ids, order = -(-n // 1024), floats(n), rows(n, 1, "int64", 0), rows(n, 1, "int64", 0)
    order[-2:, 0] = ids[-2:, 0] = n - 2, n - 1
    sums, squares, of_blocks, of_rows = floats(parts), rows(2, 1, "float64", 0), floats(2), floats(n, width=2 * WIDTH)
    w, m, v, grad = (floats(n, seed) for seed in (1, 2, 3, 4))
    v[-2:] = v[-2:] ** 2
    every_far = (2**23,), (256,), range(1)
    return {
        "sum_rows": (
            "sums",
            ((2, parts), (32, 32), range(2 * parts - 2, 2 * parts)),
            (x, sums, n, WIDTH, 1024),
            (sums[-1:],),
        ),
        "sum_squares": ("sums", every_far, (x, squares, n * WIDTH), (squares,)),
        "adam": ("adam", every_far, (w, m, v, grad, n * WIDTH, 0.9, 0.98, 1e-9, 0.1, 1.0), (w, m, v)),
        "relu_dropout_backward": (
            "feed_forward",
            ((1, 2**15), (32, 8), range(1)),
            (x, y, of_blocks, n, WIDTH, 1, 1.5),
            (x, of_blocks),
        ),
        "norm_backward": (
            "norm",
            a_block_for_a_row(n, 32),
            (x, y, floats(n, 5, width=1), vector, z, far_z, of_rows, n, WIDTH, 1, *NO_DROPOUT),
            (z, far_z, of_rows),
        ),
        "add_tiles": (
            "embedding",
            ((-(-n // 32), 1), (64,), range(-(-n // 32) - 1, -(-n // 32))),
            (x, ids, order, table, floats(2), n, WIDTH, 2.0, 1, *NO_DROPOUT),
            (table,),
        ),
    }


def of_parts(n: int) -> dict:
    """The last two tiles, of 32 rows each, are those of one token."""
    tiles, table = n // 2, floats(n)
    ids, order, parts = rows(32 * tiles, 1, "int64", 0), rows(32 * tiles, 1, "int64", 0), floats(n, 1)
    order[-64:], ids[1] = 1, n - 1
    launch = (tiles, 1), (64,), range(tiles - 2, tiles - 1)
    return {"add_parts": ("embedding", launch, (ids, order, parts, table, 32 * tiles, WIDTH, 2.0, 1), (table,))}


def of_attention(n: int) -> dict:
    """Sentences of two tokens and one head"""
    q, k, v, grad_y = (halves(n, seed) for seed in (1, 2, 3, 4))
    y, grad_q, grad_k, grad_v = (halves(n) for _ in range(4))
    largest, inverse, mask = floats(n, width=1), floats(n, width=1), rows(n, WIDTH, "bool", 0)
    mask[-2:] = True
    strides = (2 * WIDTH, 0, WIDTH) * 3 + (2 * WIDTH, 0, WIDTH, 1)
    numbers = (*strides, 1, 2, 2, WIDTH, WIDTH, 1e-4, *NO_DROPOUT)
    launch, saved = ((n // 2,), (128,), range(n // 2 - 1, n // 2)), (y, largest, inverse)
    return {
        "attention_forward": ("attention", launch, (q, k, v, mask, *saved, *numbers), saved),
        "attention_backward": (
            "attention",
            launch,
            (q, k, v, mask, *saved, grad_y, grad_q, grad_k, grad_v, *numbers),
            (grad_q, grad_k, grad_v),
        ),
    }


CONSTANTS = {
    "norm": (("GROUPS", 1),),
    "attention": (("D_K", WIDTH), ("D_V", WIDTH), ("ONE_TILE", 1), ("TILE", 32)),
}


def last_rows(kernels_of, n: int, library_of=kernels.library_of) -> dict[str, list[bytes] | str]:
    """What each kernel writes there, or the fault that is found."""
    found = {}
    for name, (file, (blocks, threads, only), arguments, results) in kernels_of(n).items():
        library = library_of(file, "bfloat16", CONSTANTS.get(file, ()))
        types = kernels.parameters_in(source_of(file))[name]
        run = kernels.launcher(library, name, types, "bfloat16")
        try:
            run(blocks, threads, tuple(map(_argument, arguments)), only)
            assert all(result[-2:].any() for result in results), f"{name} writes nothing"
            found[name] = [result[-2:].tobytes() for result in results]
        except AssertionError as fault:
            found[name] = str(fault)
    return found


def with_32_bits(file: str, dtype: str, names: tuple):
    """The kernels of a file with integers that are too small for such places."""
    source = re.sub(r"(?<!unsigned )\blong long\b(?! \*)", "int", source_of(file))
    return kernels.built(re.sub(r"\b(\d+)ll\b", r"\1", source), options_of(dtype, names))


@pytest.mark.parametrize("kernels_of", [of_rows, of_sums, of_parts, of_attention])
def test_every_kernel_finds_rows_beyond_two_to_the_31(kernels_of, device):
    near = last_rows(kernels_of, 4 if kernels_of is of_parts else 2)
    assert last_rows(kernels_of, FAR) == near
    assert not any(isinstance(each, str) for each in near.values())
    for name, found in last_rows(kernels_of, FAR, with_32_bits).items():
        assert found != near[name], f"{name} needs no 64 bits: these rows are not far enough"
