"""Matrix products: of two batches of matrices, and of activations with a weight matrix."""

from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ShapeError
from minitransformer.ops.elementwise import unbroadcast
from minitransformer.ops.rule import Rule


def matmul_forward(a: Array, b: Array) -> tuple[Array, tuple]:
    """y = a b

    a: (..., n, k)   b: (..., k, m)   y: (..., n, m), leading axes broadcast

    Raises:
        ShapeError: a factor has fewer than two axes.
    """
    if min(a.ndim, b.ndim) < 2:
        raise ShapeError(f"matmul: both factors must have at least two axes, got shapes {a.shape} and {b.shape}")
    return a @ b, (a, b)


def matmul_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_a = grad_y b^T,  grad_b = a^T grad_y"""
    a, b = saved
    grad_a = grad_y @ b.swapaxes(-1, -2)
    grad_b = a.swapaxes(-1, -2) @ grad_y
    return unbroadcast(grad_a, a.shape), unbroadcast(grad_b, b.shape)


def linear_forward(x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, tuple]:
    """y = x W + b

    x: (..., d_in)   weight: (d_in, d_out)   bias: (d_out,) or None   y: (..., d_out)
    """
    x_rows = x.reshape(-1, x.shape[-1])  # (N, d_in): one large product instead of many small ones
    y = x_rows @ weight  # (N, d_out)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[1]), (x_rows, x.shape, weight, bias is not None)  # (..., d_out)


def linear_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y W^T,  grad_W = x^T grad_y,  grad_b = sum of grad_y over all positions"""
    x_rows, x_shape, weight, has_bias = saved
    grad_rows = grad_y.reshape(-1, weight.shape[1])  # (N, d_out)
    grad_x = (grad_rows @ weight.T).reshape(x_shape)  # (..., d_in)
    grad_weight = x_rows.T @ grad_rows  # (d_in, d_out)
    if not has_bias:
        return grad_x, grad_weight
    ones = get_array_module(grad_rows).ones(len(grad_rows), grad_rows.dtype)
    return grad_x, grad_weight, ones @ grad_rows  # a product with ones is the fastest sum over rows


matmul = Rule("matmul", matmul_forward, matmul_backward)
linear = Rule("linear", linear_forward, linear_backward)
