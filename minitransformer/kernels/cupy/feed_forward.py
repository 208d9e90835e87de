"""Kernel of feed_forward: bias and ReLU in the first product or, with dropout, in one pass over the hidden values."""

from minitransformer.backend import Array
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.gemm_lt import biased_product
from minitransformer.kernels.cupy.launch import fits_vec16, launch_groups
from minitransformer.kernels.cupy.linear import affine, check_bias, rows_of
from minitransformer.kernels.cupy.masks import CountedMask, arguments_of
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import uses_tf32
from minitransformer.ops.rule import Rule


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


def feed_forward_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/feed_forward.py."""
    rows, x_shape, first, second, active, dtype, factor, tf32 = saved
    grad_rows = rows_of(grad_y)  # (N, d_model)
    grad_w2 = matmul(active, grad_rows, transpose_a=True, dtype=dtype, tf32=tf32)
    grad_hidden = matmul(grad_rows, second, transpose_b=True, tf32=tf32)  # (N, d_ff)
    n_rows, d_ff = grad_hidden.shape
    arguments = (grad_hidden, active, n_rows, d_ff, fits_vec16(d_ff, grad_hidden, active), factor)
    launch_groups("feed_forward", "relu_dropout_backward", n_rows, d_ff, arguments, rows.dtype)
    grad_w1 = matmul(rows, grad_hidden, transpose_a=True, dtype=dtype, tf32=tf32)
    grad_x = matmul(grad_hidden, first, transpose_b=True, tf32=tf32)  # (N, d_model)
    return grad_x.reshape(x_shape), grad_w1, sum_rows(grad_hidden), grad_w2, sum_rows(grad_rows)


feed_forward = Rule("feed_forward", feed_forward_forward, feed_forward_backward)
