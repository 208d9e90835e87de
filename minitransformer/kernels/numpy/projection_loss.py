"""Kernel of projection_loss that never holds all logits: rows are processed in chunks (see CHUNK_ELEMENTS).

Forward already computes the gradients (for grad_loss = 1), because each chunk's probabilities exist only once;
backward scales them. The measured gain is in benchmarks/notes.md.
"""

from collections.abc import Iterator

import numpy as np

from minitransformer.backend import Array
from minitransformer.config import PAD
from minitransformer.ops.rule import Rule

# Logits held at a time: about a million, which stay in cache, but never fewer than 512 rows: every chunk reads and
# writes all of grad_table, so for a large vocabulary few large chunks gain more than the cache does.
CHUNK_ELEMENTS = 1 << 20
CHUNK_ROWS = 512
TABLE_ROWS = 4096  # rows of grad_table added to at a time, so that no product is as large as grad_table itself


def chunk_rows(vocab_size: int) -> int:
    """Rows of logits held at a time."""
    return max(CHUNK_ROWS, CHUNK_ELEMENTS // vocab_size)


class _Chunks:
    """Loops over rows of x; per chunk it yields exp(logits - max), and accumulates loss and nll.

    loss_n = ln Z_n - (1 - eps) logit_n,target - eps mean_v logit_nv,   Z_n = sum_v exp(logit_nv)
    """

    def __init__(self, x: Array, table: Array, targets: Array, label_smoothing: float, pad_id: int):
        self.x, self.table, self.targets, self.eps = x, table, targets, label_smoothing
        self.real = targets != pad_id  # (N,)
        self.mean_row = table.mean(axis=0)  # (d_model,): x . mean_row is the mean of a row of logits
        self.loss = self.nll = 0.0

    def __iter__(self) -> Iterator[tuple[slice, Array, Array, tuple]]:
        rows = chunk_rows(len(self.table))
        buffer = np.empty((min(rows, len(self.x)), len(self.table)), self.x.dtype)
        ones = np.ones(len(self.table), self.x.dtype)
        for start in range(0, len(self.x), rows):
            part = slice(start, min(start + rows, len(self.x)))
            logits = np.matmul(self.x[part], self.table.T, out=buffer[: part.stop - start])  # (n, V)
            at_target = (np.arange(len(logits)), self.targets[part])
            largest = logits.max(axis=1)  # (n,)
            target_logit = logits[at_target]
            logits -= largest[:, None]
            exps = np.exp(logits, out=logits)
            total = exps @ ones  # (n,): Z / exp(largest); a product with ones is the fastest row sum
            self._count(part, np.log(total) + largest, target_logit)
            yield part, exps, total, at_target

    def _count(self, part, log_z, target_logit):
        real = self.real[part]
        mean_logit = self.x[part] @ self.mean_row
        self.nll += float(((log_z - target_logit) * real).sum(dtype=np.float64))
        loss = log_z - (1.0 - self.eps) * target_logit - self.eps * mean_logit
        self.loss += float((loss * real).sum(dtype=np.float64))

    def totals(self) -> tuple[Array, Array]:
        return np.asarray(self.loss, self.x.dtype), np.asarray(self.nll, self.x.dtype)


def projection_loss_forward(
    x: Array, table: Array, *, targets: Array, label_smoothing: float = 0.0, pad_id: int = PAD
) -> tuple[tuple[Array, Array], tuple]:
    """As in ops/projection_loss.py. grad_logits = exps / total - (1 - eps) onehot - eps / V, and each term is applied
    where it is cheapest: 1 / total scales rows of x instead of logits, eps / V is one vector for all rows."""
    chunks = _Chunks(x, table, targets, label_smoothing, pad_id)
    grad_x = np.empty_like(x)  # (N, d_model)
    grad_table = np.zeros_like(table)  # (V, d_model)
    for part, exps, total, at_target in chunks:
        exps[at_target] -= (1.0 - label_smoothing) * total
        weight = (chunks.real[part] / total).astype(x.dtype)[:, None]  # (n, 1), zero at padding
        np.matmul(exps, table, out=grad_x[part])
        grad_x[part] *= weight
        weighted = x[part] * weight  # (n, d_model)
        for start in range(0, len(table), TABLE_ROWS):
            rows = slice(start, start + TABLE_ROWS)
            grad_table[rows] += exps[:, rows].T @ weighted
    if label_smoothing:
        # mean_row = sum_v table_v / V, so these are the products of eps / V with all rows of the other factor.
        grad_x -= np.outer(chunks.real, label_smoothing * chunks.mean_row).astype(x.dtype, copy=False)
        grad_table -= (label_smoothing / len(table)) * (chunks.real.astype(x.dtype) @ x)
    return chunks.totals(), (grad_x, grad_table)


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
    chunks = _Chunks(x, table, targets, label_smoothing, pad_id)
    for _ in chunks:
        pass
    return chunks.totals()


projection_loss = Rule(
    "projection_loss",
    projection_loss_forward,
    projection_loss_backward,
    n_non_differentiable=1,
    inference_forward=projection_loss_inference_forward,
)
