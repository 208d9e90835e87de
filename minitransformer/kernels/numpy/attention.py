"""Twin of attention: softmax in place with one shift for all rows, row sums by a product.

A row's own maximum is the slow part of a softmax over short rows: NumPy reduces each row by itself. Softmax does not
change when a row is shifted, so here the largest score of all serves every row; should a row then vanish, because its
scores lie far below, the readable pair does the work. A masked score is -inf before the softmax, by an addition.
"""

from __future__ import annotations

import math

import numpy as np

from minitransformer.ops.attention import attention_weights
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.rule import Rule

# The least sum of a row: far enough from float32's smallest number, 1e-38, for all that matters in the row.
SMALLEST_TOTAL = 1e-25


def attention_forward(q, k, v, *, mask=None, keep=None, p_drop: float = 0.0):
    """As in ops/attention.py."""
    scale = 1.0 / math.sqrt(q.shape[-1])
    q_scaled = q * scale  # scaling q costs less than scaling scores, here and in backward
    scores = q_scaled @ k.swapaxes(-1, -2)  # (..., T, S)
    if mask is not None:
        scores += np.where(mask, 0.0, -np.inf).astype(scores.dtype)
    softmax = _softmax_in_place(scores)
    if softmax is None:
        softmax, _ = attention_weights(q, k, mask=mask)
    weights, saved_dropout = dropout_forward(softmax, keep=keep, p_drop=p_drop)
    return weights @ v, (q_scaled, k, v, softmax, weights, saved_dropout, scale)


def attention_backward(grad_y, saved):
    """As in ops/attention.py: grad_scores = weights * (grad_weights - sum_j grad_weights_j weights_j)"""
    q_scaled, k, v, softmax, weights, saved_dropout, scale = saved
    grad_v = weights.swapaxes(-1, -2) @ grad_y  # (..., S, d_v)
    grad_scores = grad_y @ v.swapaxes(-1, -2)  # (..., T, S)
    (grad_scores,) = dropout_backward(grad_scores, saved_dropout)
    grad_scores -= np.einsum("...ij,...ij->...i", grad_scores, softmax)[..., None]
    grad_scores *= softmax
    grad_q = grad_scores @ k  # (..., T, d_k)
    grad_q *= scale
    grad_k = grad_scores.swapaxes(-1, -2) @ q_scaled  # (..., S, d_k)
    return grad_q, grad_k, grad_v


def _softmax_in_place(scores: np.ndarray) -> np.ndarray | None:
    """Softmax over the last axis, in the memory of ``scores``; None if one shift does not suit all rows."""
    with np.errstate(invalid="ignore"):  # where everything is masked: -inf - -inf
        scores -= scores.max()
    exps = np.exp(scores, out=scores)
    rows = exps.reshape(-1, exps.shape[-1])
    totals = rows @ np.ones(exps.shape[-1], exps.dtype)
    if not totals.min() >= SMALLEST_TOTAL:
        return None
    rows *= (1.0 / totals)[:, None]
    return exps


attention = Rule("attention", attention_forward, attention_backward)
