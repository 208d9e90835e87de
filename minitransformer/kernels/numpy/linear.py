"""Kernels of linear and feed_forward: the plain rules, with products by `gemm`."""

import numpy as np

from minitransformer.backend import Array
from minitransformer.kernels.composites import compose
from minitransformer.kernels.numpy.gemm import matmul, packed_matmul
from minitransformer.ops import feed_forward as ops_feed_forward
from minitransformer.ops.rule import Rule


def linear_forward(x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, tuple]:
    """As in ops/linear.py; uses a packed copy of a weight that does not change."""
    rows = x.reshape(-1, x.shape[-1])  # (N, d_in)
    y = packed_matmul(rows, weight)
    y = matmul(rows, weight) if y is None else y  # (N, d_out)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[1]), (rows, x.shape, weight, bias is not None)


def linear_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """As in ops/linear.py."""
    rows, x_shape, weight, has_bias = saved
    grad_rows = grad_y.reshape(-1, weight.shape[1])  # (N, d_out)
    grad_x = matmul(grad_rows, weight, transpose_b=True).reshape(x_shape)
    grads = grad_x, matmul(rows, grad_rows, transpose_a=True)
    return (*grads, np.ones(len(grad_rows), grad_rows.dtype) @ grad_rows) if has_bias else grads


linear = Rule("linear", linear_forward, linear_backward)
feed_forward = compose(ops_feed_forward.feed_forward, {"linear": linear})
