"""Kernel of residual_dropout: masks are drawn again in backward, so none is read or kept."""

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import check_arrays, fits_vec16, launch_groups
from minitransformer.kernels.cupy.linear import rows_of
from minitransformer.kernels.cupy.masks import CountedMask, DropoutArguments, arguments_of
from minitransformer.ops.rule import Rule


def residual_dropout_forward(
    x: Array, sublayer: Array, *, keep: CountedMask | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/residual.py; ``keep`` is a CountedMask."""
    dropout = arguments_of(keep, "residual_dropout", x.shape)
    return dropped_sum(x, sublayer, dropout), (dropout,)


def residual_dropout_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/residual.py."""
    (dropout,) = saved
    return grad_y, through_dropout(grad_y, dropout)


def through_dropout(x: Array, dropout: DropoutArguments) -> Array:
    """x * keep / (1 - p_drop); x itself where nothing is dropped. dropout: of a CountedMask"""
    return x if dropout.threshold == 0 else dropped_sum(None, x, dropout)


def dropped_sum(x: Array | None, sublayer: Array, dropout: DropoutArguments) -> Array:
    """x + sublayer * keep / (1 - p_drop), or without x the second term"""
    check_arrays("residual_dropout: x", sublayer.shape, sublayer.dtype, x)
    rows = rows_of(sublayer)
    others = None if x is None else rows_of(x)
    y = get_array_module(rows).empty_like(rows)
    n_rows, width = rows.shape
    arguments = (others, rows, y, n_rows, width, fits_vec16(width, others, rows), *dropout)
    launch_groups("dropout", "residual_dropout", n_rows, width, arguments, rows.dtype)
    return y.reshape(sublayer.shape)


residual_dropout = Rule("residual_dropout", residual_dropout_forward, residual_dropout_backward)
