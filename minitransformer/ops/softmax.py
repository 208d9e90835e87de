"""Softmax over the last axis, with an optional mask, and its logarithm."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule


def softmax_forward(x: Array, *, mask: Array | None = None) -> tuple[Array, tuple]:
    """y_i = exp(x_i) / sum_j exp(x_j), over the positions where mask is True      [sec. 3.2.1; masks: sec. 3.2.3]

    x, y: (..., n)   mask: boolean, broadcasts to x
    A fully masked row gives zeros; a row with NaN or +inf where mask is True gives NaN.
    """
    xp = get_array_module(x)
    if mask is not None:
        x = xp.where(mask, x, -xp.inf)
    largest = x.max(axis=-1, keepdims=True)
    largest = xp.where(largest == -xp.inf, 0.0, largest)  # a fully masked row: -inf - -inf would be NaN
    y = xp.exp(x - largest)  # the largest exponent is 0: no overflow
    total = y.sum(axis=-1, keepdims=True)
    y /= xp.where(total == 0.0, 1.0, total)
    return y, (y,)


def softmax_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = y * (grad_y - sum_j grad_y_j y_j)"""
    (y,) = saved
    grad_x = grad_y - (grad_y * y).sum(axis=-1, keepdims=True)
    grad_x *= y
    return (grad_x,)


def log_softmax_forward(x: Array) -> tuple[Array, tuple]:
    """y_i = x_i - ln sum_j exp(x_j)

    x, y: (..., n)   A row that is all -inf, or that has NaN or +inf, gives NaN.
    """
    xp = get_array_module(x)
    y = x - x.max(axis=-1, keepdims=True)
    y -= xp.log(xp.exp(y).sum(axis=-1, keepdims=True))
    return y, (y,)


def log_softmax_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y - exp(y) * sum_j grad_y_j"""
    (y,) = saved
    return (grad_y - get_array_module(y).exp(y) * grad_y.sum(axis=-1, keepdims=True),)


softmax = Rule("softmax", softmax_forward, softmax_backward)
log_softmax = Rule("log_softmax", log_softmax_forward, log_softmax_backward)
