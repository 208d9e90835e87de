"""Kernels of linear and feed_forward: the plain rules, with products by `gemm`."""

import numpy as np

from minitransformer.backend import Array
from minitransformer.kernels.destination import NEW
from minitransformer.kernels.numpy.gemm import matmul, packed_matmul
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.elementwise import relu_backward, relu_forward
from minitransformer.ops.rule import Rule


def linear_forward(x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, tuple]:
    """As in ops/linear.py; by a packed copy of a weight that does not change."""
    rows = x.reshape(-1, x.shape[-1])  # (N, d_in)
    y = packed_matmul(rows, weight)
    y = matmul(rows, weight) if y is None else y  # (N, d_out)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], weight.shape[1]), (rows, x.shape, weight, bias is not None)


def linear_backward(grad_y: Array, saved: tuple, into: tuple = (NEW, NEW, NEW)) -> tuple[Array, ...]:
    """As in ops/linear.py."""
    rows, x_shape, weight, has_bias = saved
    grad_rows = grad_y.reshape(-1, weight.shape[1])  # (N, d_out)
    grad_x = None if into[0] is None else matmul(grad_rows, weight, transpose_b=True).reshape(x_shape)
    to = into[1]
    grad_weight = None if to is None else matmul(rows, grad_rows, transpose_a=True, out=to.array, add=to.add)
    return (grad_x, grad_weight, np.ones(len(grad_rows), grad_rows.dtype) @ grad_rows)[: 2 + has_bias]


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, *, keep: Array | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """As in ops/feed_forward.py."""
    hidden, saved_first = linear_forward(x, w1, b1)  # (..., d_ff)
    active, saved_relu = relu_forward(hidden)
    active, saved_dropout = dropout_forward(active, keep=keep, p_drop=p_drop)
    y, saved_second = linear_forward(active, w2, b2)  # (..., d_model)
    return y, (saved_first, saved_relu, saved_dropout, saved_second)


def feed_forward_backward(grad_y: Array, saved: tuple, into: tuple = (NEW,) * 5) -> tuple[Array, ...]:
    """As in ops/feed_forward.py."""
    saved_first, saved_relu, saved_dropout, saved_second = saved
    grad_active, *grads_second = linear_backward(grad_y, saved_second, (NEW, *into[3:]))
    (grad_active,) = dropout_backward(grad_active, saved_dropout)
    (grad_hidden,) = relu_backward(grad_active, saved_relu)
    return *linear_backward(grad_hidden, saved_first, into[:3]), *grads_second


linear = Rule("linear", linear_forward, linear_backward, accumulates=True)
feed_forward = Rule("feed_forward", feed_forward_forward, feed_forward_backward, accumulates=True)
