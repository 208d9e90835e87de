"""Exercise of lesson 4: the backward of attention, given the weights of the forward."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.attention_weights import SIZES_APART, swapped
from course.exercises.more_sources import right_only_for_as_many
from minitransformer.ops.attention import attention_backward, attention_forward, attention_weights
from minitransformer.ops.softmax import softmax_backward


def backward_inputs(rng):
    for n_queries, n_keys, d_k, d_v in ((1, 2, 4, 2), (3, 4, 5, 2)):
        shapes = (n_queries, d_k), (n_keys, d_k), (n_keys, d_v), (n_queries, d_v)
        q, k, v, grad_y = (rng.standard_normal(shape) for shape in shapes)
        yield grad_y, q, k, v, attention_weights(q, k)[0]
    for shape in ((3, 3, 3), (2, 2, 2, 2)):  # equal sizes on purpose, as above
        grad_y, q, k, v = rng.standard_normal((4, *shape))
        yield grad_y, q, k, v, attention_weights(q, k)[0]


def backward(grad_y, q, k, v, weights):
    return attention_backward(grad_y, attention_forward(q, k, v)[1])


def softmax_rule(grad_weights, weights):
    return softmax_backward(grad_weights, (weights,))[0]


def root(q):
    return math.sqrt(q.shape[-1])


def through(rule=softmax_rule, q_divisor=root, k_divisor=root, turn=swapped):
    """Attention's backward with another rule for the softmax, other scales, or another transpose."""

    def wrong(grad_y, q, k, v, weights):
        grad_scores = rule(grad_y @ turn(v), weights)
        return grad_scores @ k / q_divisor(q), turn(grad_scores) @ q / k_divisor(q), turn(weights) @ grad_y

    return wrong


def one(q):
    return 1.0


def width(q):
    return q.shape[-1]


def in_softmax(message, rule):
    """A mistake in the softmax, whatever the scale and the transpose: two at once have a name too."""
    return [
        Mistake(message, through(rule, divisor, divisor, turn))
        for divisor in (root, one, width)
        for turn in (swapped, np.transpose)
    ]


def in_scale(message, **divisors):
    return [Mistake(message, through(**divisors, turn=turn)) for turn in (swapped, np.transpose)]


def other_sizes(function, *inputs):
    """Axes in front, and no two of one size: here q.shape[1] is no d_k."""
    if inputs[0].ndim < 4:
        return None
    rng = np.random.default_rng(0)
    grad_y, q, k, v = (rng.standard_normal((2, 5, *size)) for size in ((4, 7), (4, 3), (6, 3), (6, 7)))
    return right_only_for_as_many(
        function, backward, inputs, (grad_y, q, k, v, attention_weights(q, k)[0]), SIZES_APART
    )


BACKWARD = Exercise(
    "04_attention.backward",
    backward_inputs,
    reference=backward,
    tested="all three gradients of one head at two sizes, of several sentences and of several heads, against the "
    "engine's attention_backward",
    parts=("grad_q", "grad_k", "grad_v"),
    mistakes=(
        *in_softmax(
            "The mean term of the softmax is missing: its backward is weights * (g - sum(g * weights)).",
            lambda g, weights: weights * g,
        ),
        *in_softmax(
            "w (1 - w) is the slope of a weight by its own score. It moves with the scores of all other keys too: the "
            "backward is weights * (g - sum(g * weights)).",
            lambda g, weights: weights * (1 - weights) * g,
        ),
        *in_softmax("The softmax is skipped: grad_weights is used where grad_scores belongs.", lambda g, weights: g),
        *in_softmax(
            "The mean fit is divided by the number of keys: sum(g * weights) is already a mean; the weights sum to 1.",
            lambda g, weights: weights * (g - (g * weights).mean(axis=-1, keepdims=True)),
        ),
        *in_softmax(
            "The mean fit is the plain mean of g; each g must count with its weight: sum(g * weights).",
            lambda g, weights: weights * (g - g.mean(axis=-1, keepdims=True)),
        ),
        *in_softmax(
            "The sum of the softmax runs over the queries; it belongs to one row.",
            lambda g, weights: weights * (g - (g * weights).sum(axis=-2, keepdims=True)),
        ),
        *in_softmax(
            "The sum of the softmax runs over the first axis; it belongs to one row, over the last.",
            lambda g, weights: weights * (g - (g * weights).sum(axis=0, keepdims=True)),
        ),
        *in_softmax(
            "One sum over the whole array stands in the softmax; each row, one query, has a sum of its own: axis=-1.",
            lambda g, weights: weights * (g - (g * weights).sum()),
        ),
        Mistake(
            ".T reverses all axes, also those of sentences and heads. Exchange the last two: .swapaxes(-1, -2).",
            through(turn=np.transpose),
        ),
        *in_scale(
            "The scale 1 / sqrt(d_k) is missing in grad_q and grad_k: forward multiplied the scores by it.",
            q_divisor=one,
            k_divisor=one,
        ),
        *in_scale(
            "grad_q and grad_k are divided by d_k; forward divided the scores by its square root.",
            q_divisor=width,
            k_divisor=width,
        ),
        *in_scale(
            "grad_q and grad_k are multiplied by sqrt(d_k); forward divided the scores by it.",
            q_divisor=lambda q: 1 / root(q),
            k_divisor=lambda q: 1 / root(q),
        ),
        *in_scale("The scale 1 / sqrt(d_k) is missing in grad_k.", k_divisor=one),
        *in_scale("The scale 1 / sqrt(d_k) is missing in grad_q.", q_divisor=one),
    ),
    properties=(other_sizes,),
)
