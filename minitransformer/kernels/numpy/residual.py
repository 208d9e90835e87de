"""Kernel of residual_dropout_norm: one pass over blocks of rows that stay in cache, row sums by einsum, in place.

It keeps x_hat, inv_std and the dropout mask, and nothing else; the composed rule also makes five temporaries.
The measured gain is in benchmarks/notes.md.
"""

from functools import cache

import numpy as np

from minitransformer.backend import Array
from minitransformer.ops.rule import Rule

BLOCK_ELEMENTS = 1 << 16  # values per block


def _blocks(n_rows: int, width: int):
    rows = max(1, BLOCK_ELEMENTS // width)
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]


def _rows(array):
    return None if array is None else array.reshape(-1, array.shape[-1])


def residual_dropout_norm_forward(
    x: Array,
    sublayer: Array,
    gamma: Array,
    beta: Array,
    *,
    keep: Array | None = None,
    p_drop: float = 0.0,
    eps: float = 1e-6,
) -> tuple[Array, tuple]:
    """As in ops/residual.py."""
    width = x.shape[-1]
    x_rows, sublayer_rows, keep_rows = _rows(x), _rows(sublayer), _rows(keep)  # (N, d_model)
    x_hat, y = np.empty_like(x_rows), np.empty_like(x_rows)
    inv_std = np.empty((len(x_rows), 1), x.dtype)
    average = _average(width, x.dtype)
    for part in _blocks(len(x_rows), width):
        total = x_hat[part]
        _drop(sublayer_rows[part], keep_rows, part, p_drop, out=total)
        total += x_rows[part]
        total -= (total @ average)[:, None]
        variance = np.einsum("ij,ij->i", total, total)
        variance *= 1.0 / width
        variance += eps
        inv_std[part, 0] = 1.0 / np.sqrt(variance)
        total *= inv_std[part]
        np.multiply(total, gamma, out=y[part])
        y[part] += beta
    return y.reshape(x.shape), (x_hat, inv_std, gamma, keep_rows, p_drop)


def residual_dropout_norm_inference_forward(
    x: Array,
    sublayer: Array,
    gamma: Array,
    beta: Array,
    *,
    keep: Array | None = None,
    p_drop: float = 0.0,
    eps: float = 1e-6,
) -> Array:
    """y alone; for the few rows of a decoding step, with fewer NumPy calls."""
    if keep is not None or x.size > BLOCK_ELEMENTS:
        return residual_dropout_norm_forward(x, sublayer, gamma, beta, keep=keep, p_drop=p_drop, eps=eps)[0]
    y = x + sublayer
    y -= (y @ _average(x.shape[-1], x.dtype))[..., None]
    variance = np.einsum("...i,...i->...", y, y)
    variance *= 1.0 / x.shape[-1]
    variance += eps
    y *= (1.0 / np.sqrt(variance))[..., None]
    y *= gamma
    y += beta
    return y


@cache
def _average(width: int, dtype: np.dtype) -> np.ndarray:
    """The vector whose product with a row is the row's mean."""
    return np.full(width, 1.0 / width, dtype)


def residual_dropout_norm_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_total = inv_std * (g - mean(g) - x_hat * mean(g * x_hat)),   g = gamma * grad_y; then through the dropout"""
    x_hat, inv_std, gamma, keep_rows, p_drop = saved
    width = gamma.shape[0]
    grad_rows = _rows(grad_y)
    grad_total = np.empty_like(x_hat)
    grad_sublayer = grad_total if keep_rows is None else np.empty_like(x_hat)
    grad_gamma, grad_beta = np.zeros_like(gamma), np.zeros_like(gamma)
    average = _average(width, gamma.dtype)
    ones = np.ones(len(x_hat), gamma.dtype)
    for part in _blocks(len(x_hat), width):
        hat, g = x_hat[part], grad_total[part]
        grad_gamma += np.einsum("ij,ij->j", grad_rows[part], hat)
        grad_beta += ones[: part.stop - part.start] @ grad_rows[part]
        np.multiply(grad_rows[part], gamma, out=g)
        through_variance = np.einsum("ij,ij->i", g, hat)
        through_variance *= 1.0 / width
        g -= (g @ average)[:, None]
        g -= hat * through_variance[:, None]
        g *= inv_std[part]
        if keep_rows is not None:
            _drop(g, keep_rows, part, p_drop, out=grad_sublayer[part])
    return grad_total.reshape(grad_y.shape), grad_sublayer.reshape(grad_y.shape), grad_gamma, grad_beta


def _drop(values, keep_rows, part, p_drop, out):
    """out = Dropout(values) for the rows ``part``"""
    if keep_rows is None:
        np.copyto(out, values)
    else:
        np.multiply(values, keep_rows[part], out=out)
        out *= 1.0 / (1.0 - p_drop)


residual_dropout_norm = Rule(
    "residual_dropout_norm",
    residual_dropout_norm_forward,
    residual_dropout_norm_backward,
    inference_forward=residual_dropout_norm_inference_forward,
)
