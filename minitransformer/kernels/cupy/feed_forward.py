"""Kernel of feed_forward: bias and ReLU in the first product or, with dropout, in one pass over the hidden values."""

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.gemm_lt import biased_product
from minitransformer.kernels.cupy.launch import blocks_for, fits_vec16, launch, launch_groups
from minitransformer.kernels.cupy.linear import affine, check_bias, product_into, rows_of
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.destination import NEW
from minitransformer.kernels.precision import computed_dtype, uses_tf32
from minitransformer.ops.rule import Rule

PARTS = 128  # of the rows, whose sums for the bias are formed side by side in backward


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, *, keep: CountedMask | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/feed_forward.py; ``keep`` is a CountedMask."""
    rows, tf32 = rows_of(x), uses_tf32()  # (N, d_model)
    first, second = cast_parameter(w1, x.dtype), cast_parameter(w2, x.dtype)
    dropout = arguments_of(keep, "feed_forward", (*x.shape[:-1], w1.shape[1]))
    check_bias(b1, first)
    active = biased_product(rows, first, b1, relu=True, tf32=tf32) if keep is None else None  # (N, d_ff)
    if active is None:
        active = matmul(rows, first, tf32=tf32)  # (N, d_ff)
        n_rows, d_ff = active.shape
        arguments = (active, b1, n_rows, d_ff, fits_vec16(d_ff, active, b1), *dropout)
        launch_groups("feed_forward", "bias_relu_dropout", n_rows, d_ff, arguments, x.dtype)
    y = affine(active, second, b2, tf32=tf32)  # (N, d_model)
    return y.reshape(*x.shape[:-1], w2.shape[1]), (rows, x.shape, first, second, active, w1.dtype, dropout.factor, tf32)


def feed_forward_backward(grad_y: Array, saved: tuple, into: tuple = (NEW,) * 5) -> tuple[Array, ...]:
    """As in ops/feed_forward.py."""
    rows, x_shape, first, second, active, dtype, factor, tf32 = saved
    grad_rows = rows_of(grad_y)  # (N, d_model)
    to_x, to_w1, to_b1, to_w2, to_b2 = into
    of_weight = {"transpose_a": True, "dtype": dtype, "tf32": tf32}
    grad_w2 = product_into(to_w2, active, grad_rows, second.shape, **of_weight)
    grad_b2 = sum_rows(grad_rows, to_b2 or NEW)
    grad_hidden = matmul(grad_rows, second, transpose_b=True, tf32=tf32)  # (N, d_ff)
    n_rows, d_ff = grad_hidden.shape
    parts = get_array_module(grad_y).empty((min(PARTS, blocks_for(n_rows, 8)), d_ff), computed_dtype(rows.dtype))
    arguments = (grad_hidden, active, parts, n_rows, d_ff, fits_vec16(d_ff, grad_hidden, active), factor)
    blocks = (blocks_for(d_ff, 256), len(parts))
    launch("feed_forward", "relu_dropout_backward", blocks, (32, 8), arguments, rows.dtype)
    grad_b1 = sum_rows(parts, to_b1 or NEW)
    grad_w1 = product_into(to_w1, rows, grad_hidden, first.shape, **of_weight)
    grad_x = product_into(to_x, grad_hidden, first, x_shape, transpose_b=True, tf32=tf32)
    return grad_x, grad_w1, grad_b1, grad_w2, grad_b2


feed_forward = Rule("feed_forward", feed_forward_forward, feed_forward_backward, accumulates=True)
