"""Kernel of linear: products in the dtype of activations, the gradient of the matrix in the matrix's own."""

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.launch import check_arrays, fits_vec16, launch_groups
from minitransformer.kernels.cupy.sums import sum_rows
from minitransformer.kernels.precision import compute_dtype, uses_tf32
from minitransformer.ops.rule import Rule


def linear_forward(x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, tuple]:
    """As in ops/linear.py."""
    rows = rows_of(x)  # (N, d_in)
    matrix, tf32 = cast_parameter(weight, x.dtype), uses_tf32()
    y = matmul(rows, matrix, tf32=tf32) if bias is None else affine(rows, matrix, bias, tf32=tf32)  # (N, d_out)
    return y.reshape(*x.shape[:-1], weight.shape[1]), (rows, x.shape, matrix, weight.dtype, bias is not None, tf32)


def linear_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/linear.py."""
    rows, x_shape, matrix, dtype, has_bias, tf32 = saved
    grad_rows = rows_of(grad_y)  # (N, d_out)
    grad_x = matmul(grad_rows, matrix, transpose_b=True, tf32=tf32).reshape(x_shape)
    grad_weight = matmul(rows, grad_rows, transpose_a=True, dtype=dtype, tf32=tf32)
    return (grad_x, grad_weight, sum_rows(grad_rows)) if has_bias else (grad_x, grad_weight)


def rows_of(x: Array) -> Array:
    """x as a contiguous matrix, (..., width) to (N, width)"""
    return get_array_module(x).ascontiguousarray(x).reshape(-1, x.shape[-1])


def affine(rows: Array, matrix: Array, bias: Array, *, tf32: bool) -> Array:
    """y = rows matrix + bias, (N, d_in) to (N, d_out)"""
    check_arrays("linear: bias", matrix.shape[1:], compute_dtype(matrix.dtype), bias)
    y = matmul(rows, matrix, tf32=tf32)
    n_rows, width = y.shape
    arguments = (y, bias, n_rows, width, fits_vec16(width, y, bias))
    launch_groups("feed_forward", "add_bias", n_rows, width, arguments, y.dtype)
    return y


linear = Rule("linear", linear_forward, linear_backward)
