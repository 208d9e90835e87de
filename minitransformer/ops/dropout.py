"""Dropout: random values become zero, the rest are scaled so that the mean is preserved  [Srivastava et al. 2014]."""

from minitransformer.backend import Array
from minitransformer.ops.rule import Rule


def dropout_forward(x: Array, *, keep: Array | None, p_drop: float) -> tuple[Array, tuple]:
    """y = x * keep / (1 - p_drop)      [sec. 5.4]

    x, y: same shape   keep: boolean, the shape of x, True with probability 1 - p_drop; None leaves x unchanged
    A value that is dropped must be finite too: 0 * NaN is NaN.
    """
    if keep is None:
        return x, (None, p_drop)
    y = x * keep
    y *= 1.0 / (1.0 - p_drop)
    return y, (keep, p_drop)


def dropout_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y * keep / (1 - p_drop)"""
    keep, p_drop = saved
    return (dropout_forward(grad_y, keep=keep, p_drop=p_drop)[0],)


dropout = Rule("dropout", dropout_forward, dropout_backward)
