"""Kernel of restricted_attention in time and memory proportional to length times window, never to length squared.

Queries are taken in blocks at least as long as the window. A block and its neighbourhood are then an attention like any
other: the kernel of attention computes all blocks at once, as if they were so many sentences.
"""

import numpy as np

from minitransformer.backend import Array
from minitransformer.kernels.numpy.attention import attention_backward, attention_forward
from minitransformer.ops.restricted_attention import at_offsets
from minitransformer.ops.rule import Rule

BLOCK_ROWS = 32  # queries of a block, at least: products of smaller matrices cost more than they save


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
    """As in ops/restricted_attention.py. Query i of a block may attend to the keys i, ..., i + left + right of its
    neighbourhood, which begins ``left`` positions before the block."""
    length, (left, right) = q.shape[-2], window
    size = max(left + right, min(BLOCK_ROWS, length))
    shape = (length, left, size, size + left + right)
    offsets = np.arange(shape[-1]) - np.arange(size)[:, None]  # (size, width)
    tokens = np.ones((1, length), bool) if mask is None else np.atleast_2d(mask)
    tokens = _neighbourhoods(tokens.swapaxes(-1, -2), *shape).swapaxes(-1, -2)  # (..., n, 1, width)
    allowed = (offsets >= 0) & (offsets <= left + right) & tokens  # (..., n, size, width)
    if keep is not None:
        keep = at_offsets(_blocks(keep, size), offsets)
    keys, values = _neighbourhoods(k, *shape), _neighbourhoods(v, *shape)
    y, saved = attention_forward(_blocks(q, size), keys, values, mask=allowed, keep=keep, p_drop=p_drop)
    return _positions(y, length), (saved, shape)


def restricted_attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Each key and value gets the sum of its gradients from all neighbourhoods that it is in."""
    saved_attention, shape = saved
    length, _, size, _ = shape
    grad_q, grad_keys, grad_values = attention_backward(_blocks(grad_y, size), saved_attention)
    return _positions(grad_q, length), _summed(grad_keys, *shape), _summed(grad_values, *shape)


def _blocks(x: Array, size: int) -> Array:
    """(..., T, d) to (..., n, size, d), zeros at the end"""
    n = -(-x.shape[-2] // size)
    padded = np.zeros((*x.shape[:-2], n * size, x.shape[-1]), x.dtype)
    padded[..., : x.shape[-2], :] = x
    return padded.reshape(*x.shape[:-2], n, size, x.shape[-1])


def _positions(blocks: Array, length: int) -> Array:
    """Back from `_blocks`"""
    *stack, n, size, d = blocks.shape
    return blocks.reshape(*stack, n * size, d)[..., :length, :]


def _neighbourhoods(x: Array, length: int, left: int, size: int, width: int) -> Array:
    """The rows ``left`` before each block and those up to ``width`` after it, (..., T, d) to (..., n, width, d)"""
    padded = np.zeros((*x.shape[:-2], left + length + size, x.shape[-1]), x.dtype)
    padded[..., left : left + length, :] = x
    blocks = _blocks(padded, size)[..., : -(-length // size) + 1, :, :]
    return np.concatenate([blocks[..., :-1, :, :], blocks[..., 1:, : width - size, :]], axis=-2)


def _summed(parts: Array, length: int, left: int, size: int, width: int) -> Array:
    """The transpose of `_neighbourhoods`: a row of two parts gets the sum, (..., n, width, d) to (..., T, d)"""
    *stack, n, _, d = parts.shape
    blocks = np.zeros((*stack, n + 1, size, d), parts.dtype)
    blocks[..., :-1, :, :] = parts[..., :size, :]
    blocks[..., 1:, : width - size, :] += parts[..., size:, :]
    return _positions(blocks, left + length)[..., left:, :]


restricted_attention = Rule("restricted_attention", restricted_attention_forward, restricted_attention_backward)
