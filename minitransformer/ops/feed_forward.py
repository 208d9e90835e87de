"""The position-wise feed-forward network  [eq. 2]."""

from minitransformer.backend import Array
from minitransformer.ops.dropout import dropout_backward, dropout_forward
from minitransformer.ops.elementwise import relu_backward, relu_forward
from minitransformer.ops.linear import linear_backward, linear_forward
from minitransformer.ops.rule import Rule


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, *, keep: Array | None = None, p_drop: float = 0.0
) -> tuple[Array, tuple]:
    """y = max(0, x W1 + b1) W2 + b2      [eq. 2]

    x, y: (..., d_model)   w1: (d_model, d_ff)   b1: (d_ff,)   w2: (d_ff, d_model)   b2: (d_model,)
    keep: dropout on the hidden values, boolean, (..., d_ff), or None
    """
    hidden, saved_first = linear_forward(x, w1, b1)  # (..., d_ff)
    active, saved_relu = relu_forward(hidden)
    active, saved_dropout = dropout_forward(active, keep=keep, p_drop=p_drop)
    y, saved_second = linear_forward(active, w2, b2)  # (..., d_model)
    return y, (saved_first, saved_relu, saved_dropout, saved_second)


def feed_forward_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_active = Dropout'(grad_y W2^T),  grad_hidden = grad_active * (hidden > 0),  grad_x = grad_hidden W1^T
    grad_W1 = x^T grad_hidden,  grad_b1 = sum of grad_hidden,  grad_W2 = active^T grad_y,  grad_b2 = sum of grad_y"""
    saved_first, saved_relu, saved_dropout, saved_second = saved
    grad_active, grad_w2, grad_b2 = linear_backward(grad_y, saved_second)
    (grad_active,) = dropout_backward(grad_active, saved_dropout)
    (grad_hidden,) = relu_backward(grad_active, saved_relu)
    grad_x, grad_w1, grad_b1 = linear_backward(grad_hidden, saved_first)
    return grad_x, grad_w1, grad_b1, grad_w2, grad_b2


feed_forward = Rule("feed_forward", feed_forward_forward, feed_forward_backward)
