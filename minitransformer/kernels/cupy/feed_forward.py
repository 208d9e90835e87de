"""Kernel of feed_forward: bias, ReLU and dropout in one pass over the hidden values, and one pass backward."""

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.launch import blocks_for, check_arrays, fits_vec16, launch, launch_groups
from minitransformer.kernels.cupy.linear import affine, rows_of
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import compute_dtype, uses_tf32
from minitransformer.ops.rule import Rule

PARTS = 128  # of the rows, whose sums for the bias are computed in parallel in backward


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, *, keep: CountedMask | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/feed_forward.py; ``keep`` is a CountedMask."""
    rows, tf32 = rows_of(x), uses_tf32()  # (N, d_model)
    first, second = cast_parameter(w1, x.dtype), cast_parameter(w2, x.dtype)
    dropout = arguments_of(keep, "feed_forward", (*x.shape[:-1], w1.shape[1]))
    check_arrays("feed_forward: b1", first.shape[1:], compute_dtype(x.dtype), b1)
    active = matmul(rows, first, tf32=tf32)  # (N, d_ff)
    n_rows, d_ff = active.shape
    arguments = (active, b1, n_rows, d_ff, fits_vec16(d_ff, active, b1), *dropout)
    launch_groups("feed_forward", "bias_relu_dropout", n_rows, d_ff, arguments, x.dtype)
    y = affine(active, second, b2, tf32=tf32)  # (N, d_model)
    return y.reshape(*x.shape[:-1], w2.shape[1]), (rows, x.shape, first, second, active, w1.dtype, dropout.factor, tf32)


def feed_forward_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/feed_forward.py."""
    rows, x_shape, first, second, active, dtype, factor, tf32 = saved
    grad_rows = rows_of(grad_y)  # (N, d_model)
    of_weight = {"transpose_a": True, "dtype": dtype, "tf32": tf32}
    grad_w2 = matmul(active, grad_rows, **of_weight)
    grad_b2 = sum_rows(grad_rows)
    grad_hidden = matmul(grad_rows, second, transpose_b=True, tf32=tf32)  # (N, d_ff)
    n_rows, d_ff = grad_hidden.shape
    parts = get_array_module(grad_y).empty((min(PARTS, blocks_for(n_rows, 8)), d_ff), compute_dtype(rows.dtype))
    arguments = (grad_hidden, active, parts, n_rows, d_ff, fits_vec16(d_ff, grad_hidden, active), factor)
    blocks = (blocks_for(d_ff, 256), len(parts))
    launch("feed_forward", "relu_dropout_backward", blocks, (32, 8), arguments, rows.dtype)
    grad_w1 = matmul(rows, grad_hidden, **of_weight)
    grad_x = matmul(grad_hidden, first, transpose_b=True, tf32=tf32).reshape(x_shape)
    return grad_x, grad_w1, sum_rows(parts), grad_w2, grad_b2


feed_forward = Rule("feed_forward", feed_forward_forward, feed_forward_backward)
