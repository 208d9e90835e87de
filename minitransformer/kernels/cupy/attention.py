"""Kernel of attention: one launch forward and one backward, which read heads where the projections wrote them."""

import math

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.launch import Strided, blocks_for, launch
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.precision import compute_dtype
from minitransformer.ops import attention as plain
from minitransformer.ops.rule import Rule

THREADS = 128  # of a block: for one tile of queries, or of keys
TILES = (32, 16)  # queries, and as many keys, of a tile
SHARED_MEMORY = 48 * 1024  # bytes that every GPU gives to a block


def attention_forward(
    q: Array, k: Array, v: Array, *, mask: Array | None = None, keep: CountedMask | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/attention.py; ``keep`` is a CountedMask. The heads of y lie side by side: merging them moves nothing.

    Heads so wide that no tile of them fits into shared memory (`tile_of`) are left to the plain rule, in float32.

    Raises:
        ShapeError: q, k and v do not fit together, or one is empty.
    """
    _check(q, k, v)
    xp, shapes = get_array_module(q), (q.shape, k.shape, v.shape)
    dropout = arguments_of(keep, "attention", (*q.shape[:-1], k.shape[-2]))
    tile = tile_of(q.dtype, q.shape[-1], v.shape[-1])
    if not tile:
        exact = (x.astype(compute_dtype(x.dtype), copy=False) for x in (q, k, v))
        y, saved = plain.attention_forward(*exact, mask=mask, keep=keep and keep.array(xp), p_drop=p_drop)
        return y.astype(q.dtype, copy=False), (q.dtype, saved)
    if mask is not None:
        mask = _by_head(xp.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])))  # a view: broadcast axes have stride 0
    heads = [_by_head(x if x.strides[-1] == x.itemsize else xp.ascontiguousarray(x)) for x in (q, k, v)]
    (batch, n_heads, n_queries, d_k), (n_keys, d_v) = heads[0].shape, heads[2].shape[2:]
    y = xp.empty((batch, n_queries, n_heads, d_v), q.dtype)
    largest, inverse = xp.empty((2, batch * n_heads * n_queries), compute_dtype(q.dtype))  # of each row
    strides = [stride // x.itemsize for x in heads for stride in x.strides[:3]]
    strides += (0, 0, 0, 0) if mask is None else mask.strides
    inputs = (*map(Strided, heads), None if mask is None else Strided(mask))
    numbers = (*strides, n_heads, n_queries, n_keys, d_k, d_v, 1.0 / math.sqrt(d_k), *dropout)
    one_tile = max(n_queries, n_keys) <= tile
    constants = {"TILE": tile, "D_K": _pad_width(d_k), "D_V": _pad_width(d_v), "ONE_TILE": int(one_tile)}
    blocks = batch * n_heads * blocks_for(n_queries, tile)
    arguments = (*inputs, y, largest, inverse, *numbers)
    launch("attention", "attention_forward", (blocks,), (THREADS,), arguments, q.dtype, **constants)
    saved = (shapes, heads, inputs, (y, largest, inverse), numbers, constants)
    return y.swapaxes(1, 2).reshape(*shapes[0][:-1], d_v), saved


def attention_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/attention.py. The heads of each gradient lie side by side, as projections take them."""
    if len(saved) == 2:
        dtype, saved = saved
        grads = plain.attention_backward(grad_y.astype(compute_dtype(dtype), copy=False), saved)
        return tuple(grad.astype(dtype, copy=False) for grad in grads)
    shapes, heads, inputs, results, numbers, constants = saved
    xp, (batch, n_heads, n_queries, _), n_keys = get_array_module(grad_y), heads[0].shape, heads[1].shape[2]
    grad_y = xp.ascontiguousarray(_by_head(grad_y).swapaxes(1, 2))  # packed as y is: a copy only if it was not
    grads = [xp.empty((x.shape[0], x.shape[2], n_heads, x.shape[3]), x.dtype) for x in heads]  # (B, T, H, d)
    tile = constants["TILE"]
    blocks = batch * n_heads * (1 if constants["ONE_TILE"] else blocks_for(n_keys, tile) + blocks_for(n_queries, tile))
    arguments = (*inputs, *results, grad_y, *grads, *numbers)
    launch("attention", "attention_backward", (blocks,), (THREADS,), arguments, grad_y.dtype, **constants)
    return tuple(grad.swapaxes(1, 2).reshape(shape) for grad, shape in zip(grads, shapes, strict=True))


def tile_of(dtype: np.dtype, d_k: int, d_v: int) -> int:
    """The largest tile that fits into shared memory with what attention.cu keeps there in backward, or 0.

    Tiles of 32 allow heads of 128 in half precision and of 64 in float32; tiles of 16 allow heads of 320 and of 160."""
    pad, computed = 8 if dtype.itemsize == 2 else 1, compute_dtype(dtype).itemsize
    for tile in TILES:
        stored = 2 * (_pad_width(d_k) + pad) + 2 * (_pad_width(d_v) + pad) + tile + pad  # values of a row
        if tile * (stored * dtype.itemsize + (tile + 8) * computed) <= SHARED_MEMORY:
            return tile
    return 0


def _pad_width(width: int) -> int:
    """The width as tensor cores take it: a multiple of 16."""
    return -(-width // 16) * 16


def _by_head(x: Array) -> Array:
    """(..., T, d) as (B, H, T, d); missing axes for sentences or heads become 1."""
    return x if x.ndim == 4 else x.reshape(-1, x.shape[-3] if x.ndim > 3 else 1, *x.shape[-2:])


def _check(q: Array, k: Array, v: Array) -> None:
    """What a kernel that sees only addresses cannot check."""
    fits = q.shape[:-2] == k.shape[:-2] and q.shape[-1] == k.shape[-1] and k.shape[:-1] == v.shape[:-1]
    if not fits or q.dtype != k.dtype or k.dtype != v.dtype or 0 in (*q.shape, *v.shape):
        shapes = ", ".join(f"{x.dtype} {x.shape}" for x in (q, k, v))
        raise ShapeError(f"attention: q, k and v must fit together, and none may be empty, got {shapes}")


attention = Rule("attention", attention_forward, attention_backward)
