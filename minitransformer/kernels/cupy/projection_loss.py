"""Kernel of projection_loss that never holds all logits: per chunk of rows three products and one pass over its logits.

As on NumPy, forward computes the gradients for grad_loss = 1 while a chunk's logits exist; backward scales them.
"""

import math
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.config import PAD
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.cast import cast_parameter, scaled_copy
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.launch import launch
from minitransformer.kernels.cupy.linear import rows_of
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import compute_dtype, uses_tf32
from minitransformer.ops.rule import Rule

MAX_CHUNK_BYTES = 1 << 31  # logits held at a time: of base, 28,000 tokens in half precision
CARD_SHARE = 16  # but no more than this part of the card's memory
PITCH = 64  # rows of logits start at multiples of it: at odd addresses cuBLAS has only its slow kernels
THREADS = 512  # with few large blocks the rows in flight stay in the cache until they are read again
HALF_SCALE = 1024.0  # of the logits' gradients in float16, where label smoothing's share would underflow


def projection_loss_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[tuple[Array, Array], tuple]:
    """As in ops/projection_loss.py."""
    xp, tf32 = get_array_module(x), uses_tf32()
    dtype = compute_dtype(x.dtype)
    x, matrix = rows_of(x), cast_parameter(table, x.dtype)
    grad_x = xp.empty(x.shape, dtype)  # (N, d_model)
    grad_table = xp.empty(table.shape, table.dtype)  # (V, d_model)
    losses = xp.empty((len(x), 2), np.float64)
    scale = HALF_SCALE if x.dtype == np.float16 else 1.0
    for part, chunk, logits in _chunks(x, matrix, tf32):
        _cross_entropy(chunk, len(table), targets[part], losses[part], label_smoothing, pad_id, scale)
        grad = logits  # written over them
        matmul(grad, matrix, out=grad_x[part], alpha=1.0 / scale, tf32=tf32)
        matmul(grad, x[part], transpose_a=True, out=grad_table, add=part.start > 0, alpha=1.0 / scale, tf32=tf32)
    return _totals(losses, dtype), (grad_x, grad_table, x.dtype)


def projection_loss_backward(grad_loss: Array, grad_nll: None, saved: tuple) -> tuple[Array, ...]:
    """The gradients that forward formed, times grad_loss."""
    grad_x, grad_table, dtype = saved
    grad_table *= grad_loss
    return scaled_copy(grad_x, grad_loss, dtype), grad_table


def projection_loss_inference_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[Array, Array]:
    """The two losses alone."""
    x, matrix = rows_of(x), cast_parameter(table, x.dtype)
    losses = get_array_module(x).empty((len(x), 2), np.float64)
    for part, chunk, _ in _chunks(x, matrix, uses_tf32()):
        _cross_entropy(chunk, len(table), targets[part], losses[part], label_smoothing, pad_id, None)
    return _totals(losses, compute_dtype(x.dtype))


def chunk_rows(vocab_size: int, itemsize: int, card_bytes: float = math.inf) -> int:
    """Rows of logits held at a time, on a card with this much memory.

    It depends on nothing else on the card, so that the same card always adds in the same order.
    """
    row_bytes = pitch_of(vocab_size) * itemsize
    return max(1, int(min(MAX_CHUNK_BYTES, card_bytes / CARD_SHARE)) // row_bytes)


def pitch_of(vocab_size: int) -> int:
    """Elements from one row of logits to the next."""
    return -(-vocab_size // PITCH) * PITCH


@cache
def _card_bytes(xp: ModuleType) -> float:
    return xp.cuda.Device().mem_info[1] if hasattr(xp, "cuda") else math.inf


def _chunks(x: Array, matrix: Array, tf32: bool) -> Iterator[tuple[slice, Array, Array]]:
    """Slices of the rows and their logits, as a kernel takes them, (n, pitch), and as a product does, (n, V): two views
    of the same memory, which all slices share."""
    if not len(x):
        raise ShapeError("projection_loss: there must be rows, got none")
    xp, vocab_size = get_array_module(x), len(matrix)
    n_rows = min(len(x), chunk_rows(vocab_size, x.itemsize, _card_bytes(xp)))
    buffer = xp.empty((n_rows, pitch_of(vocab_size)), x.dtype)
    for start in range(0, len(x), n_rows):
        part = slice(start, min(start + n_rows, len(x)))
        chunk = buffer[: part.stop - start]
        yield part, chunk, matmul(x[part], matrix, transpose_b=True, out=chunk[:, :vocab_size], tf32=tf32)


def _cross_entropy(
    chunk: Array, vocab_size: int, targets: Array, losses: Array, smoothing: float, pad_id: int, scale: float | None
) -> None:
    """Loss and nll of each row into ``losses``, (n, 2); unless ``scale`` is None the gradient over the logits."""
    targets = get_array_module(chunk).ascontiguousarray(targets, dtype=np.int64)
    n_rows, pitch = chunk.shape
    arguments = (chunk, targets, losses, vocab_size, pitch, float(smoothing), pad_id, scale is not None, scale or 1.0)
    launch("projection_loss", "cross_entropy", (n_rows,), (THREADS,), arguments, chunk.dtype)


def _totals(losses: Array, dtype: np.dtype) -> tuple[Array, Array]:
    totals = sum_rows(losses).astype(dtype)  # (2,)
    return totals[:1].reshape(()), totals[1:].reshape(())


projection_loss = Rule(
    "projection_loss",
    projection_loss_forward,
    projection_loss_backward,
    n_non_differentiable=1,
    inference_forward=projection_loss_inference_forward,
)
