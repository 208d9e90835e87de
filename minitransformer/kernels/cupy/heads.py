"""Kernels of split_heads and merge_heads: contiguous heads, so that every product of attention has one stride."""

from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import THREADS, address, blocks_for, launch
from minitransformer.ops.rule import Rule


def split_heads_forward(
    packed: Array, *, n_heads: int, widths: tuple[int, ...]
) -> tuple[Array | tuple[Array, ...], tuple]:
    """As in ops/shape.py, but the outputs are copies."""
    xp = get_array_module(packed)
    packed = xp.ascontiguousarray(packed)
    batch, length, _ = packed.shape
    outputs = [xp.empty((batch, n_heads, length, width), packed.dtype) for width in widths]
    for heads, start in zip(outputs, _starts(n_heads, widths), strict=True):
        _move("split_heads", heads, packed, start)
    return tuple(outputs) if len(outputs) > 1 else outputs[0], (packed.shape, n_heads, widths)


def split_heads_backward(*grads_and_saved: Any) -> tuple[Array, ...]:
    """As in ops/shape.py."""
    *grads, (shape, n_heads, widths) = grads_and_saved
    some = next(grad for grad in grads if grad is not None)
    xp = get_array_module(some)
    grad_packed = (xp.zeros if any(grad is None for grad in grads) else xp.empty)(shape, some.dtype)
    for grad, start in zip(grads, _starts(n_heads, widths), strict=True):
        if grad is not None:
            _move("merge_heads", xp.ascontiguousarray(grad), grad_packed, start)
    return (grad_packed,)


def merge_heads_forward(heads: Array) -> tuple[Array, tuple]:
    """As in ops/shape.py."""
    batch, n_heads, length, width = heads.shape
    xp = get_array_module(heads)
    packed = xp.empty((batch, length, n_heads * width), heads.dtype)
    _move("merge_heads", xp.ascontiguousarray(heads), packed, 0)
    return packed, (heads.shape,)


def merge_heads_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/shape.py."""
    (shape,) = saved
    xp = get_array_module(grad_y)
    grad_heads = xp.empty(shape, grad_y.dtype)
    _move("split_heads", grad_heads, xp.ascontiguousarray(grad_y), 0)
    return (grad_heads,)


def _starts(n_heads: int, widths: tuple[int, ...]) -> list[int]:
    """The offset of each width's columns in a packed row, in elements."""
    return [n_heads * sum(widths[:i]) for i in range(len(widths))]


def _move(kernel: str, heads: Array, packed: Array, start: int) -> None:
    """Heads, (B, H, T, width), to or from the columns of packed, (B, T, row), that begin at ``start``."""
    _, n_heads, length, width = heads.shape
    sizes = [heads.itemsize * n for n in (width, packed.shape[-1], start)]  # bytes
    unit = next(u for u in (16, 8, 4, 2) if not any(n % u for n in (*sizes, address(heads), address(packed))))
    width, row, start = (n // unit for n in sizes)
    n = heads.nbytes // unit
    arrays = (packed, heads) if kernel == "split_heads" else (heads, packed)
    arguments = (*arrays, n, n_heads, length, width, row, start)
    launch("heads", kernel, (blocks_for(n),), (THREADS,), arguments, "float32", UNIT=unit)


split_heads = Rule("split_heads", split_heads_forward, split_heads_backward)
merge_heads = Rule("merge_heads", merge_heads_forward, merge_heads_backward)
