"""Exercise of lesson 9: the gradients that cross-attention sends to the decoder and to the memory."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.gradients import gradients_by_tape
from minitransformer.autograd import functions
from minitransformer.ops.attention import attention_backward, attention_forward


def cross_attention_inputs(rng):
    for length, d_model, d_k in ((2, 2, 2), (3, 4, 4), (5, 6, 3)):
        x, memory = rng.standard_normal((2, length, d_model))
        yield rng.standard_normal((length, d_k)), x, memory, *rng.standard_normal((3, d_model, d_k))


def cross_attention_backward(grad_y, x, memory, w_q, w_k, w_v):
    def cross_attention(x, memory, w_q, w_k, w_v):
        q, k, v = (functions.linear(each, w) for each, w in ((x, w_q), (memory, w_k), (memory, w_v)))
        return functions.attention(q, k, v)

    return gradients_by_tape(cross_attention, grad_y, x, memory, w_q, w_k, w_v)


def backward_with(asked, read, first=None):
    """With other rules for grad_x and grad_memory, of the three parts that come through Q, K and V.

    first: the array that the gradient of w_q is taken with; x if None
    """

    def wrong(grad_y, x, memory, w_q, w_k, w_v):
        _, saved = attention_forward(x @ w_q, memory @ w_k, memory @ w_v)
        grad_q, grad_k, grad_v = attention_backward(grad_y, saved)
        parts = grad_q @ w_q.T, grad_k @ w_k.T, grad_v @ w_v.T
        grad_w_q = (x if first is None else first(x, memory)).T @ grad_q
        return asked(*parts), read(*parts), grad_w_q, memory.T @ grad_k, memory.T @ grad_v

    return wrong


def more_sources(function, grad_y, x, memory, *matrices):
    """The memory may have more positions than the target."""
    inputs = grad_y, x, np.concatenate([memory, memory[:1] - 1.0]), *matrices
    found = zip(function(*inputs), cross_attention_backward(*inputs), strict=True)
    if all(np.allclose(got, expected) for got, expected in found):
        return None
    return "With as many sources as targets it is right, and with one source more it is not."


CROSS_ATTENTION_BACKWARD = Exercise(
    "09_transformer.cross_attention_backward",
    cross_attention_inputs,
    reference=cross_attention_backward,
    tested="three sizes, with as many sources as targets and with more, against the engine's tape",
    mistakes=(
        Mistake(
            "The memory gets the gradient of the keys alone. It is read twice: the values' part is added.",
            backward_with(lambda q, k, v: q, lambda q, k, v: k),
        ),
        Mistake(
            "The memory gets the gradient of the values alone. It is read twice: the keys' part is added.",
            backward_with(lambda q, k, v: q, lambda q, k, v: v),
        ),
        Mistake(
            "All three parts arrive at x, as in self-attention. Keys and values were made from the memory.",
            backward_with(lambda q, k, v: q + k + v, lambda q, k, v: np.zeros_like(k)),
        ),
        Mistake(
            "x and memory both get all three parts. x asked, and the memory was read: each gets its own.",
            backward_with(lambda q, k, v: q + k + v, lambda q, k, v: q + k + v),
        ),
        Mistake(
            "The gradients of x and of the memory are exchanged.",
            backward_with(lambda q, k, v: k + v, lambda q, k, v: q),
        ),
        Mistake(
            "The gradient of w_q is taken with the memory. The queries were made from x.",
            backward_with(lambda q, k, v: q, lambda q, k, v: k + v, first=lambda x, memory: memory),
        ),
    ),
    properties=(more_sources,),
)
