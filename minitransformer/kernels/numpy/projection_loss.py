"""Kernel of projection_loss that never holds all logits: rows are processed in chunks (see CHUNK_ELEMENTS).

Forward already computes the gradients (for grad_loss = 1), because each chunk's probabilities exist only once;
backward scales them. The measured gain is in benchmarks/notes.md.
"""

from collections.abc import Iterator

import numpy as np

from minitransformer.backend import Array
from minitransformer.config import PAD
from minitransformer.kernels.numpy.gemm import matmul
from minitransformer.ops.rule import Rule

# Logits held at a time: about a million, which stay in cache, but never fewer than 512 rows: every chunk reads and
# writes all of grad_table, so for a large vocabulary few large chunks gain more than the cache does.
CHUNK_ELEMENTS = 1 << 20
CHUNK_ROWS = 512
LARGE_LOGIT = 1e3  # logits whose differences have too few digits left in float32
TABLE_ROWS = 4096  # rows of grad_table added to at a time, so that no product is as large as grad_table itself


def chunk_rows(vocab_size: int) -> int:
    """Rows of logits held at a time."""
    return max(CHUNK_ROWS, CHUNK_ELEMENTS // vocab_size)


def _chunks(
    x: Array, table: Array, targets: Array, real: Array, mean_row: Array, label_smoothing: float
) -> Iterator[tuple[slice, Array, Array, tuple, list[float]]]:
    """Rows of x, chunk by chunk: (which, exp(logits - max), the sum of each row, index of the targets, [loss, nll]).

    loss_n = ln Z_n - (1 - eps) logit_n,target - eps mean_v logit_nv,   Z_n = sum_v exp(logit_nv)

    real: (N,), no padding   mean_row: (d_model,), the mean of the table's rows: x . mean_row is the mean of the logits
    Where some logits reach LARGE_LOGIT or are not finite, the loss is that of logits - max, as in the plain rule.
    """
    rows = chunk_rows(len(table))
    buffer = np.empty((min(rows, len(x)), len(table)), x.dtype)
    ones = np.ones(len(table), x.dtype)
    for start in range(0, len(x), rows):
        part = slice(start, min(start + rows, len(x)))
        logits = matmul(x[part], table, transpose_b=True, out=buffer[: part.stop - start])  # (n, V)
        at_target = (np.arange(len(logits)), targets[part])
        largest = logits.max(axis=1)  # (n,)
        target_logit, mean_logit = logits[at_target], x[part] @ mean_row
        logits -= largest[:, None]
        if not np.abs(largest).max() + np.abs(mean_logit).max() < LARGE_LOGIT:
            logits[~real[part]] = 0.0
            target_logit, mean_logit, largest = logits[at_target], logits.mean(axis=1), 0.0
        exps = np.exp(logits, out=logits)
        total = exps @ ones  # (n,): Z / exp(largest); a product with ones is the fastest row sum
        log_z = np.log(total) + largest
        nll = log_z - target_logit
        loss = nll
        if label_smoothing:  # with a logit of -inf, the product with 0 would be NaN
            loss = log_z - (1.0 - label_smoothing) * target_logit - label_smoothing * mean_logit
        yield part, exps, total, at_target, [(each * real[part]).sum(dtype=np.float64) for each in (loss, nll)]


def projection_loss_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[tuple[Array, Array], tuple]:
    """As in ops/projection_loss.py. grad_logits = exps / total - (1 - eps) onehot - eps / V, and each term is applied
    where it is cheapest: 1 / total scales rows of x instead of logits, eps / V is one vector for all rows."""
    real, mean_row = targets != pad_id, table.mean(axis=0)
    losses = np.zeros(2)  # loss and nll
    grad_x = np.empty_like(x)  # (N, d_model)
    grad_table = np.zeros_like(table)  # (V, d_model)
    for part, exps, total, at_target, of_chunk in _chunks(x, table, targets, real, mean_row, label_smoothing):
        losses += of_chunk
        exps[at_target] -= (1.0 - label_smoothing) * total
        weight = (real[part] / total).astype(x.dtype)[:, None]  # (n, 1), zero at padding
        matmul(exps, table, out=grad_x[part])
        grad_x[part] *= weight
        weighted = x[part] * weight  # (n, d_model)
        for start in range(0, len(table), TABLE_ROWS):
            rows = slice(start, start + TABLE_ROWS)
            matmul(exps[:, rows], weighted, transpose_a=True, out=grad_table[rows], add=True)
    if label_smoothing:
        # mean_row = sum_v table_v / V, so these are the products of eps / V with all rows of the other factor.
        grad_x -= np.outer(real, label_smoothing * mean_row).astype(x.dtype, copy=False)
        grad_table -= (label_smoothing / len(table)) * (real.astype(x.dtype) @ x)
    return _as_arrays(losses, x.dtype), (grad_x, grad_table)


def _as_arrays(losses: np.ndarray, dtype: np.dtype) -> tuple[Array, Array]:
    return np.asarray(losses[0], dtype), np.asarray(losses[1], dtype)


def projection_loss_backward(grad_loss: Array, grad_nll: None, saved: tuple) -> tuple[Array, ...]:
    """The gradients that forward formed, times grad_loss."""
    grad_x, grad_table = saved
    grad_x *= grad_loss
    grad_table *= grad_loss
    return grad_x, grad_table


def projection_loss_inference_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[Array, Array]:
    """The two losses alone."""
    losses = np.zeros(2)
    for *_, of_chunk in _chunks(x, table, targets, targets != pad_id, table.mean(axis=0), label_smoothing):
        losses += of_chunk
    return _as_arrays(losses, x.dtype)


projection_loss = Rule(
    "projection_loss",
    projection_loss_forward,
    projection_loss_backward,
    n_non_differentiable=1,
    inference_forward=projection_loss_inference_forward,
)
