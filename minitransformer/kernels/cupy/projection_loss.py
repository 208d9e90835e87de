"""Kernel of projection_loss that never holds all logits: per chunk of rows three products and one pass over its logits.

As on NumPy, forward computes the gradients for grad_loss = 1 while a chunk's logits exist; backward scales them.
"""

from collections.abc import Iterator

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.config import PAD
from minitransformer.kernels.cupy.cast import cast_parameter, scaled_copy
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.launch import THREADS, launch
from minitransformer.kernels.cupy.linear import rows_of
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import computed_dtype, uses_tf32
from minitransformer.ops.rule import Rule

CHUNK_ELEMENTS = 1 << 26  # logits held at a time: 256 MiB in float32; to be tuned on a GPU
HALF_SCALE = 1024.0  # of the logits' gradients in float16, where label smoothing's share would underflow


def projection_loss_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[tuple[Array, Array], tuple]:
    """As in ops/projection_loss.py."""
    xp, tf32 = get_array_module(x), uses_tf32()
    dtype = computed_dtype(x.dtype)
    x, matrix = rows_of(x), cast_parameter(table, x.dtype)
    grad_x = xp.empty(x.shape, dtype)  # (N, d_model)
    grad_table = xp.empty(table.shape, table.dtype)  # (V, d_model)
    losses = xp.empty((len(x), 2), np.float64)
    scale = HALF_SCALE if x.dtype == np.float16 else 1.0
    # Gradients of the type of logits are written over them.
    buffer = None if x.dtype == dtype else _empty_chunk(x, table, x.dtype)
    for part, logits in _chunks(x, matrix, tf32):
        grad = logits if buffer is None else buffer[: len(logits)]
        _cross_entropy(logits, targets[part], losses[part], grad, label_smoothing, pad_id, scale)
        matmul(grad, matrix, out=grad_x[part], alpha=1.0 / scale, tf32=tf32)
        matmul(grad, x[part], transpose_a=True, out=grad_table, add=part.start > 0, alpha=1.0 / scale, tf32=tf32)
    return _totals(losses, dtype), (grad_x, grad_table, x.dtype)


def projection_loss_backward(grad_loss: Array, grad_nll: None, saved: tuple) -> tuple[Array, ...]:
    """The gradients that forward formed, times grad_loss."""
    grad_x, grad_table, dtype = saved
    return scaled_copy(grad_x, grad_loss, dtype), scaled_copy(grad_table, grad_loss, grad_table.dtype, out=grad_table)


def projection_loss_inference_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[Array, Array]:
    """The two losses alone."""
    x, matrix = rows_of(x), cast_parameter(table, x.dtype)
    losses = get_array_module(x).empty((len(x), 2), np.float64)
    for part, logits in _chunks(x, matrix, uses_tf32()):
        _cross_entropy(logits, targets[part], losses[part], None, label_smoothing, pad_id, 1.0)
    return _totals(losses, computed_dtype(x.dtype))


def chunk_rows(vocab_size: int) -> int:
    """Rows of logits held at a time."""
    return max(1, CHUNK_ELEMENTS // vocab_size)


def _empty_chunk(x: Array, table: Array, dtype: np.dtype) -> Array:
    return get_array_module(x).empty((min(len(x), chunk_rows(len(table))), len(table)), dtype)


def _chunks(x: Array, matrix: Array, tf32: bool) -> Iterator[tuple[slice, Array]]:
    """Slices of the rows, and their logits, (n, V), always in the same memory."""
    buffer = _empty_chunk(x, matrix, computed_dtype(x.dtype))
    for start in range(0, len(x), len(buffer)):
        part = slice(start, min(start + len(buffer), len(x)))
        yield part, matmul(x[part], matrix, transpose_b=True, out=buffer[: part.stop - start], tf32=tf32)


def _cross_entropy(
    logits: Array, targets: Array, losses: Array, grad: Array | None, smoothing: float, pad_id: int, scale: float
) -> None:
    """Loss and nll of each row into ``losses``, (n, 2), and unless ``grad`` is None the gradient of the logits."""
    targets = get_array_module(logits).ascontiguousarray(targets, dtype=np.int64)
    arguments = (logits, targets, losses, grad, logits.shape[1], float(smoothing), pad_id, scale)
    dtype = logits.dtype if grad is None else grad.dtype
    launch("projection_loss", "cross_entropy", (len(logits),), (THREADS,), arguments, dtype)


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
