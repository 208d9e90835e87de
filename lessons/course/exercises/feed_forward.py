"""Exercises of lesson 7: the layer of the paper and its backward."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.elementwise import relu_forward
from minitransformer.ops.feed_forward import feed_forward_backward, feed_forward_forward


def random_layer(rng, d_model, d_ff):
    """w1, b1, w2, b2; never zero biases, at which several mistakes cannot be seen."""
    return tuple(rng.standard_normal(shape) for shape in ((d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,)))


# -- forward ----------------------------------------------------------------------------------------------------------


def forward_inputs(rng):
    for front, d_model, d_ff in (((1,), 2, 3), ((4,), 3, 6), ((2, 3), 4, 8)):
        yield 2.0 * rng.standard_normal((*front, d_model)), *random_layer(rng, d_model, d_ff)


def positive(x):
    return relu_forward(x)[0]


FORWARD = Exercise(
    "07_feed_forward.forward",
    forward_inputs,
    reference=lambda x, w1, b1, w2, b2: feed_forward_forward(x, w1, b1, w2, b2)[0],
    tested="one position, four, and a batch, against the engine's feed_forward_forward",
    mistakes=(
        Mistake("The ReLU is missing.", lambda x, w1, b1, w2, b2: (x @ w1 + b1) @ w2 + b2),
        Mistake(
            "The ReLU stands after the second projection; eq. 2 has it between the two.",
            lambda x, w1, b1, w2, b2: positive((x @ w1 + b1) @ w2 + b2),
        ),
        Mistake(
            "There is a second ReLU at the end; eq. 2 has one, between the two projections.",
            lambda x, w1, b1, w2, b2: positive(positive(x @ w1 + b1) @ w2 + b2),
        ),
        Mistake(
            "The ReLU is taken of x, before the first projection.",
            lambda x, w1, b1, w2, b2: (positive(x) @ w1 + b1) @ w2 + b2,
        ),
        Mistake(
            "b1 is added after the ReLU; it decides where the ReLU bends, so it goes inside.",
            lambda x, w1, b1, w2, b2: (positive(x @ w1) + b1) @ w2 + b2,
        ),
        Mistake("b1 is missing.", lambda x, w1, b1, w2, b2: positive(x @ w1) @ w2 + b2),
        Mistake("b2 is missing.", lambda x, w1, b1, w2, b2: positive(x @ w1 + b1) @ w2),
        Mistake("x is added: that is the residual's work, sec. 3.1.", lambda x, *p: x + positive_layer(x, *p)),
        Mistake(
            "The absolute value is taken: the ReLU sets negative numbers to zero.",
            lambda x, w1, b1, w2, b2: np.abs(x @ w1 + b1) @ w2 + b2,
        ),
    ),
)


def positive_layer(x, w1, b1, w2, b2):
    return positive(x @ w1 + b1) @ w2 + b2


# -- backward ---------------------------------------------------------------------------------------------------------


def backward_inputs(rng):
    for length, d_model, d_ff in ((1, 2, 3), (4, 3, 6)):
        x, grad_y = rng.standard_normal((length, d_model)), rng.standard_normal((length, d_model))
        yield grad_y, x, *random_layer(rng, d_model, d_ff)


def backward(grad_y, x, w1, b1, w2, b2):
    return feed_forward_backward(grad_y, feed_forward_forward(x, w1, b1, w2, b2)[1])


def backward_gated_by(gate):
    """The backward with another gate: ``gate(hidden, grad_active)`` multiplies grad_active."""

    def wrong(grad_y, x, w1, b1, w2, b2):
        hidden, grad_active = x @ w1 + b1, grad_y @ w2.T
        grad_hidden = grad_active * gate(hidden, grad_active)
        grads = grad_hidden @ w1.T, x.T @ grad_hidden, grad_hidden.sum(axis=0)
        return *grads, positive(hidden).T @ grad_y, grad_y.sum(axis=0)

    return wrong


def backward_changed(place, change):
    """The right gradients with number ``place`` replaced by ``change(right, the inputs)``."""

    def wrong(*inputs):
        grads = list(backward(*inputs))
        grads[place] = change(grads[place], *inputs)
        return tuple(grads)

    return wrong


def mean_biases(*inputs):
    grads = list(backward(*inputs))
    return tuple(grad / len(inputs[0]) if grad.ndim == 1 else grad for grad in grads)


def mean_parameters(*inputs):
    grad_x, *grads = backward(*inputs)
    return grad_x, *(grad / len(inputs[0]) for grad in grads)


BACKWARD = Exercise(
    "07_feed_forward.backward",
    backward_inputs,
    reference=backward,
    tested="all five gradients at two sizes, against the engine's feed_forward_backward",
    parts=("grad_x", "grad_w1", "grad_b1", "grad_w2", "grad_b2"),
    mistakes=(
        Mistake(
            "The ReLU's gate is missing: the gradient passes only where the hidden unit was positive.",
            backward_gated_by(lambda hidden, grad: 1.0),
        ),
        Mistake(
            "b1 is left out where the hidden numbers are computed again: it decides which gates are open.",
            lambda grad_y, x, w1, b1, w2, b2: backward(grad_y, x, w1, 0 * b1, w2, b2),
        ),
        Mistake(
            "The gate tests the sign of the gradient: max(0, grad). It must test that of the forward's value.",
            backward_gated_by(lambda hidden, grad: grad > 0),
        ),
        Mistake(
            "The gradient is multiplied by the hidden value itself; the ReLU's slope is 1 or 0.",
            backward_gated_by(lambda hidden, grad: positive(hidden)),
        ),
        Mistake(
            "The gate is the wrong way round: it must be open where hidden > 0.",
            backward_gated_by(lambda hidden, grad: hidden <= 0),
        ),
        Mistake(
            "grad_w2 is taken with the hidden values before the ReLU; w2 was multiplied by those after it.",
            backward_changed(3, lambda grad, grad_y, x, w1, b1, w2, b2: (x @ w1 + b1).T @ grad_y),
        ),
        Mistake(
            "The gradients of the biases are means over the positions, too small by their number: sum.", mean_biases
        ),
        Mistake(
            "The gradients of all four parameters are means over the positions, too small by their number: sum.",
            mean_parameters,
        ),
    ),
)
