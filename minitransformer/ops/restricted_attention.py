"""Restricted self-attention: each position attends to its neighbourhood alone  [sec. 4]."""

from types import ModuleType

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.attention import attention_backward, attention_forward
from minitransformer.ops.rule import Rule


def neighbourhood(length: int, window: tuple[int, int], xp: ModuleType) -> Array:
    """True where position t may attend to position s: t - left <= s <= t + right; (T, T)"""
    left, right = window
    offset = xp.arange(length) - xp.arange(length)[:, None]  # s - t
    return (offset >= -left) & (offset <= right)


def at_offsets(keep: Array, offsets: Array) -> Array:
    """y[..., t, s] = keep[..., t, offsets[t, s]], (..., T, W) to (..., T, S); outside of 0..W-1 any value"""
    rows = get_array_module(keep).arange(len(offsets))[:, None]
    return keep[..., rows, offsets.clip(0, keep.shape[-1] - 1)]


def restricted_attention_forward(
    q: Array,
    k: Array,
    v: Array,
    *,
    window: tuple[int, int],
    mask: Array | None = None,
    keep: Array | None = None,
    p_drop: float = 0.0,
) -> tuple[Array, tuple]:
    """y_t = softmax(q_t k_s^T / sqrt(d_k)) v_s over the positions s = t - left, ..., t + right      [sec. 4]

    Here by a mask on all pairs of positions; the kernel for NumPy computes those in the window alone.

    q, k: (..., T, d_k)   v: (..., T, d_v)   y: (..., T, d_v)   window: left and right, positions, 0 or more
    mask: boolean, True = may be attended to, one row for all queries of a sentence
    keep: dropout on the weights, (..., T, W) with W = left + right + 1, of the positions from t - left on, or None
    """
    xp, length = get_array_module(q), q.shape[-2]
    allowed = neighbourhood(length, window, xp)
    if keep is not None:
        keep = at_offsets(keep, xp.arange(length) - xp.arange(length)[:, None] + window[0])
    return attention_forward(q, k, v, mask=allowed if mask is None else allowed & mask, keep=keep, p_drop=p_drop)


restricted_attention = Rule("restricted_attention", restricted_attention_forward, attention_backward)
