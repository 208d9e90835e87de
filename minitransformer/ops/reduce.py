"""Sums, means and maxima over axes."""

import math

from numpy.lib.array_utils import normalize_axis_tuple

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule

Axes = int | tuple[int, ...] | None


def _axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """``axis`` as a tuple of non-negative axes; ``None`` means all."""
    return tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)


def _stretch(grad_y: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """grad_y repeated along the axes that were reduced, whether they were kept or not."""
    kept = tuple(1 if i in axes else size for i, size in enumerate(shape))
    return get_array_module(grad_y).broadcast_to(grad_y.reshape(kept), shape)


def sum_forward(x: Array, *, axis: Axes = None, keepdims: bool = False) -> tuple[Array, tuple]:
    """y = sum of x over ``axis`` (``None``: over everything)"""
    axes = _axes(axis, x.ndim)
    return x.sum(axis=axes, keepdims=keepdims), (x.shape, axes)


def sum_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """Every summand gets the gradient of its sum."""
    shape, axes = saved
    return (_stretch(grad_y, shape, axes),)


def mean_forward(x: Array, *, axis: Axes = None, keepdims: bool = False) -> tuple[Array, tuple]:
    """y = mean of x over ``axis`` (``None``: over everything)"""
    axes = _axes(axis, x.ndim)
    return x.mean(axis=axes, keepdims=keepdims), (x.shape, axes)


def mean_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y / n for each of the n averaged values"""
    shape, axes = saved
    return (_stretch(grad_y, shape, axes) / math.prod(shape[axis] for axis in axes),)


def max_forward(x: Array, *, axis: Axes = None, keepdims: bool = False) -> tuple[Array, tuple]:
    """y = largest value of x over ``axis`` (``None``: over everything)"""
    axes = _axes(axis, x.ndim)
    y = x.max(axis=axes, keepdims=True)
    largest = x == y
    return (y if keepdims else y.squeeze(axes)), (largest, axes)


def max_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """The gradient goes to the largest value; equal ones share it (PyTorch's ``amax`` does the same)."""
    largest, axes = saved
    share = largest / largest.sum(axis=axes, keepdims=True).astype(grad_y.dtype)
    return (_stretch(grad_y, largest.shape, axes) * share,)


sum = Rule("sum", sum_forward, sum_backward)
mean = Rule("mean", mean_forward, mean_backward)
max = Rule("max", max_forward, max_backward)
