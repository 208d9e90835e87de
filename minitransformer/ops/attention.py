"""Scaled dot-product attention: the idea that the paper is named after  [eq. 1]."""

import math

from minitransformer.backend import Array
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.rule import Rule
from minitransformer.ops.softmax import softmax_backward, softmax_forward


def attention_weights(q: Array, k: Array, *, mask: Array | None = None) -> tuple[Array, tuple]:
    """weights = softmax(q k^T / sqrt(d_k))      [eq. 1]

    q: (..., T, d_k)   k: (..., S, d_k)   mask: boolean, broadcasts to (..., T, S), True = may attend
    weights: (..., T, S); every row sums to one, or to zero if it may attend to nothing
    """
    scores = q @ k.swapaxes(-1, -2)  # (..., T, S)
    scores *= 1.0 / math.sqrt(q.shape[-1])
    return softmax_forward(scores, mask=mask)


def attention_forward(
    q: Array, k: Array, v: Array, *, mask: Array | None = None, keep: Array | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """y = softmax(q k^T / sqrt(d_k)) v      [eq. 1]

    q: (..., T, d_k)   k: (..., S, d_k)   v: (..., S, d_v)   y: (..., T, d_v)
    mask: boolean, broadcasts to (..., T, S), True = may attend   keep: dropout on the weights, (..., T, S) or None
    Masked scores have no influence on y, not even NaN; v, and in backward k, must be finite there too: 0 * NaN is NaN.
    """
    weights, saved_softmax = attention_weights(q, k, mask=mask)  # (..., T, S)
    weights, saved_dropout = dropout_forward(weights, keep=keep, p_drop=p_drop)
    y = weights @ v  # (..., T, d_v)
    return y, (q, k, v, weights, saved_softmax, saved_dropout)


def attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_v = weights^T grad_y,  grad_scores = softmax'(grad_y v^T),
    grad_q = grad_scores k / sqrt(d_k),  grad_k = grad_scores^T q / sqrt(d_k)"""
    q, k, v, weights, saved_softmax, saved_dropout = saved
    grad_v = weights.swapaxes(-1, -2) @ grad_y  # (..., S, d_v)
    grad_weights = grad_y @ v.swapaxes(-1, -2)  # (..., T, S)
    (grad_weights,) = dropout_backward(grad_weights, saved_dropout)
    (grad_scores,) = softmax_backward(grad_weights, saved_softmax)
    grad_scores *= 1.0 / math.sqrt(q.shape[-1])
    grad_q = grad_scores @ k  # (..., T, d_k)
    grad_k = grad_scores.swapaxes(-1, -2) @ q  # (..., S, d_k)
    return grad_q, grad_k, grad_v


attention = Rule("attention", attention_forward, attention_backward)
