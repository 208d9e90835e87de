"""Kernel of attention: strided products of all heads at once, and one pass for scale, mask, softmax and dropout."""

import math

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.launch import Strided, blocks_for, launch
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.precision import computed_dtype, uses_tf32
from minitransformer.ops.rule import Rule

ROWS = 4  # of scores per block, one warp for each


def attention_forward(
    q: Array, k: Array, v: Array, *, mask: Array | None = None, keep: CountedMask | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/attention.py; ``keep`` is a CountedMask."""
    tf32, scale = uses_tf32(), 1.0 / math.sqrt(q.shape[-1])
    scores = matmul(q, k, transpose_b=True, dtype=computed_dtype(q.dtype), tf32=tf32)  # (..., T, S)
    dropout = arguments_of(keep, "attention", scores.shape)
    xp = get_array_module(q)
    weights = xp.empty(scores.shape, q.dtype)
    dropped = weights if keep is None else xp.empty(scores.shape, q.dtype)
    n_queries, n_keys = scores.shape[-2:]
    n_rows = scores.size // n_keys
    mask, n_heads, strides = _mask_by_strides(mask, scores.shape)
    arguments = (scores, weights, None if keep is None else dropped, mask, n_rows, n_heads, n_queries, n_keys)
    arguments += (*strides, scale, *dropout)
    launch("softmax", "softmax_forward", (blocks_for(n_rows, ROWS),), (32, ROWS), arguments, q.dtype)
    y = matmul(dropped, v, tf32=tf32)  # (..., T, d_v)
    return y, (q, k, v, weights, dropped, dropout, scale, tf32)


def attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/attention.py."""
    q, k, v, weights, dropped, dropout, scale, tf32 = saved
    grad_v = matmul(dropped, grad_y, transpose_a=True, tf32=tf32)  # (..., S, d_v)
    grad_dropped = matmul(grad_y, v, transpose_b=True, dtype=computed_dtype(q.dtype), tf32=tf32)  # (..., T, S)
    grad_scores = get_array_module(q).empty(weights.shape, q.dtype)
    n_keys = weights.shape[-1]
    n_rows = weights.size // n_keys
    arguments = (grad_dropped, weights, grad_scores, n_rows, n_keys, scale, *dropout)
    launch("softmax", "softmax_backward", (blocks_for(n_rows, ROWS),), (32, ROWS), arguments, q.dtype)
    grad_q = matmul(grad_scores, k, tf32=tf32)  # (..., T, d_k)
    grad_k = matmul(grad_scores, q, transpose_a=True, tf32=tf32)  # (..., S, d_k)
    return grad_q, grad_k, grad_v


def _mask_by_strides(mask: Array | None, shape: tuple[int, ...]) -> tuple[Strided | None, int, tuple[int, ...]]:
    """The mask's bytes, the number of heads per sentence, and the strides of sentence, head, query and key."""
    *stack, n_queries, n_keys = shape
    if mask is None:
        return None, 1, (0, 0, 0, 0)
    xp = get_array_module(mask)
    mask = xp.broadcast_to(mask, shape)  # a view: axes along which the mask is broadcast have stride 0
    if len(stack) > 2:
        mask = xp.ascontiguousarray(mask).reshape(-1, 1, n_queries, n_keys)
    elif len(stack) < 2:
        mask = mask.reshape(n_queries, n_keys)[None, None] if not stack else mask[:, None]
    return Strided(mask), mask.shape[1], mask.strides


attention = Rule("attention", attention_forward, attention_backward)
