"""Kernel of attention that holds scores transposed, (..., S, T), and works on them in place.

Softmax is then a reduction over the last axis but one, which NumPy does for a whole row of queries at a time. Over the
last axis it reduces each short row separately: four times as slow (benchmarks/notes.md). The few queries of a decoding
step are the exception: there the rows over keys are longer, and the plain rule is faster.
"""

import math

import numpy as np

from minitransformer.backend import Array
from minitransformer.kernels.numpy.gemm import matmul
from minitransformer.ops import attention as ops_attention
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.rule import Rule

FEW_QUERIES = 8


def attention_forward(
    q: Array, k: Array, v: Array, *, mask: Array | None = None, keep: Array | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/attention.py."""
    q_scaled = q * (1.0 / math.sqrt(q.shape[-1]))  # fewer values than scores, here and in backward
    scores = matmul(k, q_scaled, transpose_b=True)  # (..., S, T)
    if mask is not None:
        highest = np.where(np.atleast_2d(mask), np.inf, -np.inf).astype(scores.dtype)
        np.fmin(scores, highest.swapaxes(-1, -2), out=scores)  # as fast as adding -inf, which would let NaN through
    softmax = _softmax_over_keys(scores)
    keep = None if keep is None else keep.swapaxes(-1, -2)
    weights, saved_dropout = dropout_forward(softmax, keep=keep, p_drop=p_drop)
    y = matmul(weights, v, transpose_a=True)  # (..., T, d_v)
    return y, (q_scaled, k, v, softmax, weights, saved_dropout)


def attention_inference_forward(
    q: Array, k: Array, v: Array, *, mask: Array | None = None, keep: Array | None = None, p_drop: float = 0.0
) -> Array:
    """y alone; the few queries of a decoding step are left to the plain rule."""
    forward = ops_attention.attention_forward if q.shape[-2] <= FEW_QUERIES else attention_forward
    return forward(q, k, v, mask=mask, keep=keep, p_drop=p_drop)[0]


def attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/attention.py: grad_scores = weights * (grad_weights - sum over keys of grad_weights * weights)"""
    q_scaled, k, v, softmax, weights, saved_dropout = saved
    grad_v = matmul(weights, grad_y)  # (..., S, d_v)
    grad_scores = matmul(v, grad_y, transpose_b=True)  # (..., S, T)
    (grad_scores,) = dropout_backward(grad_scores, saved_dropout)
    grad_scores -= np.einsum("...st,...st->...t", grad_scores, softmax)[..., None, :]
    grad_scores *= softmax
    grad_q = matmul(grad_scores, k, transpose_a=True)  # (..., T, d_k)
    grad_q *= 1.0 / math.sqrt(k.shape[-1])
    grad_k = matmul(grad_scores, q_scaled)  # (..., S, d_k)
    return grad_q, grad_k, grad_v


def _softmax_over_keys(scores: np.ndarray) -> np.ndarray:
    """Softmax over axis -2, in the memory of ``scores``; zeros where everything is -inf."""
    largest = _largest_over_keys(scores)  # (..., 1, T)
    largest[largest == -np.inf] = 0.0
    scores -= largest
    exps = np.exp(scores, out=scores)
    total = np.ones((1, exps.shape[-2]), exps.dtype) @ exps  # (..., 1, T): a product with ones is the fastest sum
    total[total == 0.0] = 1.0
    exps *= 1.0 / total
    return exps


def _largest_over_keys(scores: np.ndarray) -> np.ndarray:
    """The maximum over axis -2: the first half of the rows against the second, until one row is left. NumPy's own
    takes four times as long for the short rows of many heads."""
    while (n_keys := scores.shape[-2]) > 1:
        half = (n_keys + 1) // 2  # of an odd number of rows, the middle one is in both
        scores = np.maximum(scores[..., :half, :], scores[..., n_keys - half :, :])
    return scores.copy()


attention = Rule("attention", attention_forward, attention_backward, inference_forward=attention_inference_forward)
