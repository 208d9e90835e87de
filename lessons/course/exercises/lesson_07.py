"""Exercises of lesson 7: the feed-forward layer."""

import numpy as np

from course.calls import Trouble
from course.compare import form_error
from course.exercise import Exercise, Mistake
from course.gradients import gradients_by_tape
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


# -- collapsed --------------------------------------------------------------------------------------------------------

COLLAPSED = Exercise(
    "07_feed_forward.collapsed",
    lambda rng: [random_layer(rng, 2, 3), random_layer(rng, 4, 4), random_layer(rng, 3, 8)],
    reference=lambda w1, b1, w2, b2: (w1 @ w2, b1 @ w2 + b2),
    tested="three sizes, against the products on paper",
    mistakes=(
        Mistake("b1 is lost: it passes through w2 like everything else.", lambda w1, b1, w2, b2: (w1 @ w2, b2)),
        Mistake("b2 is missing.", lambda w1, b1, w2, b2: (w1 @ w2, b1 @ w2)),
        Mistake(
            "The bias goes through both projections: only x is multiplied by w1.",
            lambda w1, b1, w2, b2: (w1 @ w2, b2 @ w1 @ w2 + b1 @ w2),
        ),
        Mistake(
            "b2 is multiplied by the product of both matrices; it is added last, as it is.",
            lambda w1, b1, w2, b2: (w1 @ w2, b1 @ w2 + b2 @ w1 @ w2 + b2),
        ),
    ),
)

# -- interpolation ----------------------------------------------------------------------------------------------------


def interpolation_inputs(rng):
    yield np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, -2.0])
    yield np.sort(rng.uniform(-3.0, 3.0, 6)), rng.standard_normal(6)


def layer_of(function, xs, ys):
    """What the student's parameters compute, as a function of a vector of x."""
    n = len(xs)
    given = function(xs, ys)
    wanted = (np.zeros((1, n)), np.zeros(n), np.zeros((n, 1)), np.zeros(1))
    error = form_error(wanted, given)
    if error:
        raise Trouble(f"{error[0].upper()}{error[1:]}.")
    return lambda x: feed_forward_forward(np.asarray(x)[:, None], *given)[0][:, 0]


def at_points(function, xs, ys):
    """The curve at the given points: the first, then the second, then all others."""
    found = layer_of(function, xs, ys)(xs)
    if np.isnan(found).any():
        return "The layer gives NaN: is one of the parameters NaN or infinite?"
    if np.allclose(found - found[0], ys - ys[0]):
        if not np.allclose(found, ys):
            return "The curve has the right form and starts at the wrong height: b2 must be ys[0]."
        return None
    if not np.isclose(found[0], ys[0]):
        return f"At the first point the curve must be {ys[0]:.4g}, got {found[0]:.4g}: nothing may bend before xs[0]."
    if not np.isclose(found[1], ys[1]):
        return f"Between the first two points the slope is wrong: at xs[1] expected {ys[1]:.4g}, got {found[1]:.4g}."
    slopes = np.diff(ys) / np.diff(xs)
    if np.allclose(np.diff(found) / np.diff(xs), np.cumsum(slopes)):
        return "The slopes pile up: every earlier hidden unit is still active. Each must bring the change of slope."
    i = int(np.flatnonzero(~np.isclose(found, ys))[0])
    return f"At xs[{i}] the curve must be {ys[i]:.4g}, got {found[i]:.4g}: which units are active there?"


def between_and_outside(function, xs, ys):
    curve = layer_of(function, xs, ys)
    if not np.allclose(curve((xs[1:] + xs[:-1]) / 2), (ys[1:] + ys[:-1]) / 2):
        return "Between the points the curve is not straight: the bends must be at the points."
    if not np.allclose(curve(xs[:1] - 2.0), ys[0]):
        return "Left of the first point the curve must be constant: nothing may be active there."
    if not np.allclose(curve(xs[-1:] + 2.0), ys[-1]):
        return "Right of the last point the curve must be constant: the last unit must cancel the last slope."
    return None


INTERPOLATION = Exercise(
    "07_feed_forward.interpolation",
    interpolation_inputs,
    reference=None,
    tested="three points and six, at the points, half way between them, and outside",
    properties=(at_points, between_and_outside),
)

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
    mistakes=(
        Mistake(
            "The ReLU's gate is missing: the gradient passes only where the hidden unit was positive.",
            backward_gated_by(lambda hidden, grad: 1.0),
        ),
        Mistake(
            "The gate asks for the sign of the gradient: max(0, grad). It must ask for that of the forward's value.",
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
            "The gradients of the biases are means over the positions, too small by their number: sum.",
            mean_biases,
        ),
        Mistake(
            "The gradients of all four parameters are means over the positions, too small by their number: sum.",
            mean_parameters,
        ),
    ),
)

# -- gated_backward ---------------------------------------------------------------------------------------------------


def gated(x, w1, w3, w2):
    """(max(0, x W1) * x W3) W2      [Shazeer 2020]; for tensors"""
    return ((x @ w1).relu() * (x @ w3)) @ w2


def gated_inputs(rng):
    for length, d_model, d_ff in ((1, 2, 3), (4, 3, 6)):
        shapes = ((length, d_model), (length, d_model), (d_model, d_ff), (d_model, d_ff), (d_ff, d_model))
        yield tuple(rng.standard_normal(shape) for shape in shapes)


def gated_with(grad_gate=None, grad_value=None, second_path=True):
    """Its backward, with other gradients of the two projections: functions of (grad_product, gate, value)."""

    def wrong(grad_y, x, w1, w3, w2):
        gate, value, grad_product = x @ w1, x @ w3, grad_y @ w2.T
        to_gate = (grad_gate or (lambda g, a, b: g * b * (a > 0)))(grad_product, gate, value)
        to_value = (grad_value or (lambda g, a, b: g * positive(a)))(grad_product, gate, value)
        grad_x = to_gate @ w1.T + (to_value @ w3.T if second_path else 0.0)
        return grad_x, x.T @ to_gate, x.T @ to_value, (positive(gate) * value).T @ grad_y

    return wrong


GATED_BACKWARD = Exercise(
    "07_feed_forward.gated_backward",
    gated_inputs,
    reference=lambda grad_y, x, w1, w3, w2: gradients_by_tape(gated, grad_y, x, w1, w3, w2),
    tested="all four gradients at two sizes, against the tape walking through the forward",
    mistakes=(
        Mistake(
            "The second path to x, through W3, is missing: x was used twice.",
            gated_with(second_path=False),
        ),
        Mistake(
            "The ReLU's gate is missing in the gradient of x W1.",
            gated_with(grad_gate=lambda g, gate, value: g * value),
        ),
        Mistake(
            "The other factor is missing: the gradient of x W1 is multiplied by x W3.",
            gated_with(grad_gate=lambda g, gate, value: g * (gate > 0)),
        ),
        Mistake(
            "The other factor is missing: the gradient of x W3 is multiplied by max(0, x W1).",
            gated_with(grad_value=lambda g, gate, value: g),
        ),
        Mistake(
            "The gradient of x W3 is multiplied by x W1 before its ReLU: a shut gate lets nothing through.",
            gated_with(grad_value=lambda g, gate, value: g * gate),
        ),
        Mistake(
            "The gradient of x W3 is multiplied by the slope of the ReLU; its factor is the value, max(0, x W1).",
            gated_with(grad_value=lambda g, gate, value: g * (gate > 0)),
        ),
    ),
)

EXERCISES = (FORWARD, COLLAPSED, INTERPOLATION, BACKWARD, GATED_BACKWARD)
