"""Heads side by side in packed projections: attention reads and writes them there, so nothing is moved.

The heads of q, k and v are views of what one product or several have written: (B, H, T, d) in the columns of an array
(B, T, columns), as `split_heads` of ops/shape.py gives them. Any product may write such an array: q alone, k and v, or
all three. The gradients that attention returns lie in arrays of the same form, and there split_heads' backward finds
the gradient of the packed projection complete. merge_heads needs no kernel: its plain rule returns a view.
"""

from typing import Any

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import address
from minitransformer.ops import shape as plain
from minitransformer.ops.rule import Rule


def split_heads_backward(*grads_and_saved: Any) -> tuple[Array, ...]:
    """As in ops/shape.py, without a copy of gradients that lie side by side already."""
    *grads, (shape, _, _) = grads_and_saved
    packed = None if any(grad is None for grad in grads) else packed_array(grads)
    return plain.split_heads_backward(*grads_and_saved) if packed is None else (packed.reshape(shape),)


def packed_array(parts: list[Array]) -> Array | None:
    """The array (B, T, H * sum of widths) that consists of the columns of ``parts``, or None if there is none.

    parts: the heads of each projection, (B, H, T, width)
    """
    first, item, memory = parts[0], parts[0].itemsize, _memory(parts[0])
    if any(_memory(part) is not memory for part in parts):
        return None
    batch, n_heads, length, _ = first.shape
    row, start = n_heads * sum(part.shape[-1] for part in parts) * item, address(first)  # bytes
    for part in parts:
        size, strides = part.shape, (length * row, part.shape[-1] * item, row, item)
        is_there = address(part) == start and size[:3] == first.shape[:3]
        if not is_there or any(n > 1 and has != want for n, has, want in zip(size, part.strides, strides, strict=True)):
            return None
        start += n_heads * size[-1] * item
    as_strided = get_array_module(first).lib.stride_tricks.as_strided
    return as_strided(first, (batch, length, row // item), (length * row, row, item))


def empty_heads(batch: int, length: int, n_heads: int, widths: list[int], like: Array) -> tuple[Array, tuple]:
    """A new packed array, (B, T, H * sum of widths), and the heads in it, (B, H, T, width) of each width."""
    packed = get_array_module(like).empty((batch, length, n_heads * sum(widths)), like.dtype)
    heads, _ = plain.split_heads_forward(packed, n_heads=n_heads, widths=tuple(widths))
    return packed, heads if isinstance(heads, tuple) else (heads,)


def gradients_like(q: Array, k: Array, v: Array) -> tuple[list[Array], list[int]]:
    """New arrays for the gradients, side by side where q, k and v are, and the columns of the packed array of each."""
    groups = [[q, k, v]] if packed_array([q, k, v]) is not None else [[q], [k, v]]
    if len(groups) == 2 and packed_array([k, v]) is None:
        groups = [[q], [k], [v]]
    grads, columns = [], []
    for group in groups:
        batch, n_heads, length, _ = group[0].shape
        packed, heads = empty_heads(batch, length, n_heads, [part.shape[-1] for part in group], group[0])
        grads += heads
        columns += [packed.shape[-1]] * len(group)
    return grads, columns


def _memory(array: Array) -> Any:
    """What the array is a view of: arrays that were made apart may lie side by side by chance."""
    if isinstance(array, np.ndarray):
        return array if array.base is None else array.base
    return array.data.mem


split_heads = Rule("split_heads", plain.split_heads_forward, split_heads_backward)
