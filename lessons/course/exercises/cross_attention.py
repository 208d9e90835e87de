"""Exercise of lesson 9: the gradients that cross-attention sends to the decoder and to the memory."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.more_sources import right_only_for_as_many
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


def backward_with(asked=lambda q, k, v: q, read=lambda q, k, v: k + v, first=None, second=None, source=None):
    """With other rules for grad_x and grad_memory, of the three parts that come through Q, K and V.

    first, second: of x and memory, the array that the gradient of w_q, those of w_k and w_v are taken with
    source: of x and memory, the array that keys and values are made from
    """

    def wrong(grad_y, x, memory, w_q, w_k, w_v):
        asking, given, made_from = (
            choice(x, memory) if choice else usual for choice, usual in ((first, x), (second, memory), (source, memory))
        )
        _, saved = attention_forward(x @ w_q, made_from @ w_k, made_from @ w_v)
        grad_q, grad_k, grad_v = attention_backward(grad_y, saved)
        parts = grad_q @ w_q.T, grad_k @ w_k.T, grad_v @ w_v.T
        return asked(*parts), read(*parts), asking.T @ grad_q, given.T @ grad_k, given.T @ grad_v

    return wrong


def more_sources(function, grad_y, x, memory, *matrices):
    longer = np.concatenate([memory, memory[:1] - 1.0])
    sentence = "With as many sources as targets it is right, and with one source more it is not."
    inputs, more = ((grad_y, x, each, *matrices) for each in (memory, longer))
    return right_only_for_as_many(function, cross_attention_backward, inputs, more, sentence)


def of_x(x, memory):
    return x


CROSS_ATTENTION_BACKWARD = Exercise(
    "09_transformer.cross_attention_backward",
    cross_attention_inputs,
    reference=cross_attention_backward,
    tested="three sizes, with as many sources as targets and with more, against the engine's tape",
    parts=("grad_x", "grad_memory", "grad_w_q", "grad_w_k", "grad_w_v"),
    mistakes=(
        Mistake(
            "The memory gets the gradient of the keys alone. It is read twice: the values' part is added.",
            backward_with(read=lambda q, k, v: k),
        ),
        Mistake(
            "The memory gets the gradient of the values alone. It is read twice: the keys' part is added.",
            backward_with(read=lambda q, k, v: v),
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
            backward_with(first=lambda x, memory: memory),
        ),
        Mistake(
            "The gradients of w_k and w_v are taken with x. Keys and values were made from the memory.",
            backward_with(second=of_x),
        ),
        Mistake(
            "x is read for the memory: keys and values are memory @ w_k and memory @ w_v.",
            backward_with(second=of_x, source=of_x),
        ),
    ),
    properties=(more_sources,),
)
