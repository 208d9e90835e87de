"""Ops that rearrange values without changing them; each backward rearranges the gradient back."""

from itertools import accumulate
from types import EllipsisType
from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.elementwise import unbroadcast
from minitransformer.ops.rule import Rule


def reshape_forward(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, tuple]:
    """The same values in another shape."""
    return x.reshape(shape), (x.shape,)


def reshape_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y in the shape of x"""
    (shape,) = saved
    return (grad_y.reshape(shape),)


def transpose_forward(x: Array, *, axes: tuple[int, ...]) -> tuple[Array, tuple]:
    """y[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]"""
    return x.transpose(axes), (axes,)


def transpose_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """The inverse permutation: axis axes[i] of x became axis i of y."""
    (axes,) = saved
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis] = i
    return (grad_y.transpose(inverse),)


def broadcast_forward(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, tuple]:
    """Broadcast x to ``shape`` by NumPy's rules."""
    return get_array_module(x).broadcast_to(x, shape), (x.shape,)


def broadcast_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = the sum over all copies"""
    (shape,) = saved
    return (unbroadcast(grad_y, shape),)


def getitem_forward(x: Array, *, index: Any) -> tuple[Array, tuple]:
    """y = x[index], for slices and integer arrays alike"""
    return x[index], (x.shape, index)


def getitem_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Add each gradient to the element its value came from; an element selected twice gets the sum."""
    shape, index = saved
    xp = get_array_module(grad_y)
    grad_x = xp.zeros(shape, grad_y.dtype)
    if all(
        isinstance(each, slice | int | None | EllipsisType) for each in (index if type(index) is tuple else (index,))
    ):
        grad_x[index] = grad_y  # slices and integers select no element twice
    else:
        xp.add.at(grad_x, index, grad_y)
    return (grad_x,)


def concatenate_forward(*parts: Array, axis: int = -1) -> tuple[Array, tuple]:
    """The parts joined along ``axis``"""
    return get_array_module(*parts).concatenate(parts, axis=axis), (tuple(part.shape[axis] for part in parts), axis)


def concatenate_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Split grad_y where the parts were joined."""
    sizes, axis = saved
    return tuple(get_array_module(grad_y).split(grad_y, list(accumulate(sizes[:-1])), axis=axis))


def split_heads_forward(
    packed: Array, *, n_heads: int, widths: tuple[int, ...]
) -> tuple[Array | tuple[Array, ...], tuple]:
    """Split packed projections, then each into its heads      [sec. 3.2.2]

    packed: (B, T, n_heads * sum(widths))   outputs: one (B, n_heads, T, width) per width, views, not copies
    """
    batch, length, _ = packed.shape
    outputs, start = [], 0
    for width in widths:
        part = packed[..., start : start + n_heads * width]  # (B, T, n_heads * width)
        outputs.append(part.reshape(batch, length, n_heads, width).swapaxes(1, 2))  # (B, n_heads, T, width)
        start += n_heads * width
    return tuple(outputs) if len(outputs) > 1 else outputs[0], (packed.shape, n_heads, widths)


def split_heads_backward(*grads_and_saved: Any) -> tuple[Array, ...]:
    """Write the gradient of each output into the columns its values came from."""
    *grads, (shape, n_heads, widths) = grads_and_saved
    batch, length, _ = shape
    some = next(grad for grad in grads if grad is not None)
    grad_packed = get_array_module(some).empty(shape, some.dtype)
    start = 0
    for grad, width in zip(grads, widths, strict=True):
        part = grad_packed[..., start : start + n_heads * width].reshape(batch, length, n_heads, width)
        part[...] = 0 if grad is None else grad.swapaxes(1, 2)  # (B, T, n_heads, width)
        start += n_heads * width
    return (grad_packed,)


def merge_heads_forward(heads: Array) -> tuple[Array, tuple]:
    """Concat(head_1, ..., head_h)      [sec. 3.2.2]

    heads: (B, H, T, d_v)   y: (B, T, H * d_v)
    """
    batch, n_heads, length, width = heads.shape
    return heads.swapaxes(1, 2).reshape(batch, length, n_heads * width), (heads.shape,)  # (B, T, H * d_v)


def merge_heads_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Split the last axis into heads again."""
    ((batch, n_heads, length, width),) = saved
    return (grad_y.reshape(batch, length, n_heads, width).swapaxes(1, 2),)  # (B, H, T, d_v)


reshape = Rule("reshape", reshape_forward, reshape_backward)
transpose = Rule("transpose", transpose_forward, transpose_backward)
broadcast = Rule("broadcast", broadcast_forward, broadcast_backward)
getitem = Rule("getitem", getitem_forward, getitem_backward)
concatenate = Rule("concatenate", concatenate_forward, concatenate_backward)
split_heads = Rule("split_heads", split_heads_forward, split_heads_backward)
merge_heads = Rule("merge_heads", merge_heads_forward, merge_heads_backward)
