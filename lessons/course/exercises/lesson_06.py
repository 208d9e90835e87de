"""Exercises of lesson 6: layer norm and residuals."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.layer_norm import BACKWARD, EPS, FORWARD, normalized, random_parameters
from course.exercises.rms_norm import RMS_NORM, RMS_NORM_BACKWARD
from minitransformer.ops.layer_norm import layer_norm_backward, layer_norm_forward

# -- equal_values -----------------------------------------------------------------------------------------------------


def equal_values_inputs(rng):
    for shape, eps in (((1, 3), 0.25), ((2, 4), 0.01), ((5, 8), EPS)):
        yield rng.standard_normal(shape), random_parameters(rng, shape[-1])[0], eps


def equal_values(grad_y, gamma, eps):
    x = np.full(grad_y.shape, 3.0)
    return layer_norm_backward(grad_y, layer_norm_forward(x, gamma, np.zeros_like(gamma), eps=eps)[1])[0]


EQUAL_VALUES = Exercise(
    "06_layer_norm.equal_values",
    equal_values_inputs,
    reference=equal_values,
    tested="three sizes and three values of eps, against the engine at x = 3 everywhere",
    mistakes=(
        Mistake(
            "The gradient is not zero. x_hat is zero here, but a step away from equal values changes it.",
            lambda grad_y, gamma, eps: np.zeros_like(grad_y),
        ),
        Mistake(
            "The mean term is missing: a step that changes all x alike must change nothing.",
            lambda grad_y, gamma, eps: gamma * grad_y / np.sqrt(eps),
        ),
        Mistake(
            "gamma stands outside the mean: take g = gamma * grad_y first, then g - mean(g).",
            lambda grad_y, gamma, eps: gamma * (grad_y - grad_y.mean(-1, keepdims=True)) / np.sqrt(eps),
        ),
        Mistake(
            "gamma is missing.", lambda grad_y, gamma, eps: (grad_y - grad_y.mean(-1, keepdims=True)) / np.sqrt(eps)
        ),
        Mistake(
            "The root of eps is missing: inv_std = 1 / sqrt(0 + eps).",
            lambda grad_y, gamma, eps: equal_values(grad_y, gamma, eps) / np.sqrt(eps),
        ),
    ),
)

# -- normalized_axis --------------------------------------------------------------------------------------------------


def norm_over(axes, scale):
    """A norm over these axes. Its name gives nothing away."""

    def norm(x):
        return scale * normalized(x, EPS, axis=axes)

    return norm


AXES = (2, 1, 0)


def normalized_axis_inputs(rng):
    """No axis of two: a norm of two numbers is a sign, which random numbers may well leave as it is."""
    return [(norm_over(axis, scale), (3, 4, 5)) for axis, scale in zip(AXES, (1.0, 0.5, 3.0), strict=True)]


def probing(change):
    """Answers with the first axis along which ``change`` leaves the norm's result as it is."""

    def wrong(norm, shape):
        x = np.random.default_rng(1).standard_normal(shape)
        unchanged = [axis for axis in range(3) if np.allclose(norm(change(x, axis)), norm(x), atol=1e-4)]
        return unchanged[0] if unchanged else 0

    return wrong


def own_constant(x, axis):
    """A constant of its own added to each line along ``axis``."""
    shape = [1 if i == axis else size for i, size in enumerate(x.shape)]
    return x + np.random.default_rng(2).standard_normal(shape)


NORMALIZED_AXIS = Exercise(
    "06_layer_norm.normalized_axis",
    normalized_axis_inputs,
    reference=probing(own_constant),
    tested="norms over each of the three axes, with three output scales",
    mistakes=(
        Mistake(
            "The answer is always 0. A constant added to all of x, or one factor, is undone by every norm: give each "
            "line along the axis a constant of its own.",
            probing(lambda x, axis: x + 1.0),
        ),
        Mistake(
            "The answer is the first axis that is not normalized. Along the right one the result's mean vanishes, and "
            "a constant for each line along it changes nothing.",
            lambda norm, shape: next(axis for axis in range(3) if axis != probing(own_constant)(norm, shape)),
        ),
        Mistake("The answer is always the last axis; the given norm was never called.", lambda norm, shape: 2),
    ),
)

# -- backward_from_output ---------------------------------------------------------------------------------------------


def from_output_inputs(rng):
    for shape in ((1, 3), (2, 3, 4)):
        gamma, beta = random_parameters(rng, shape[-1])
        y, (_, inv_std, _) = layer_norm_forward(2.0 * rng.standard_normal(shape), gamma, beta)
        yield rng.standard_normal(shape), y, inv_std, gamma, beta


def backward_from(x_hat_of=lambda y, gamma, beta: (y - beta) / gamma):
    """Layer norm's backward with x_hat recomputed by ``x_hat_of(y, gamma, beta)``."""

    def backward(grad_y, y, inv_std, gamma, beta):
        return layer_norm_backward(grad_y, (x_hat_of(y, gamma, beta), inv_std, gamma))

    return backward


def without_gamma(factor):
    """grad_x of the plain grad_y, times ``factor(gamma)``."""

    def wrong(grad_y, y, inv_std, gamma, beta):
        of_ones = layer_norm_backward(grad_y, ((y - beta) / gamma, inv_std, np.ones_like(gamma)))
        return factor(gamma) * of_ones[0], *of_ones[1:]

    return wrong


BACKWARD_FROM_OUTPUT = Exercise(
    "06_layer_norm.backward_from_output",
    from_output_inputs,
    reference=backward_from(),
    tested="all three gradients of one position and of a batch, with random gamma and beta",
    parts=("grad_x", "grad_gamma", "grad_beta"),
    mistakes=(
        Mistake("y is used for x_hat: subtract beta and divide by gamma.", backward_from(lambda y, gamma, beta: y)),
        Mistake("beta is not subtracted.", backward_from(lambda y, gamma, beta: y / gamma)),
        Mistake("gamma is not divided out of y.", backward_from(lambda y, gamma, beta: y - beta)),
        Mistake(
            "beta is subtracted after the division; forward added it last, so subtract it first.",
            backward_from(lambda y, gamma, beta: y / gamma - beta),
        ),
        Mistake(
            "gamma stands outside the means: g = gamma * grad_y belongs inside both.",
            without_gamma(lambda gamma: gamma),
        ),
        Mistake(
            "gamma is missing in grad_x: the gradient of x_hat is g = gamma * grad_y.", without_gamma(lambda gamma: 1.0)
        ),
    ),
)

EXERCISES = (FORWARD, BACKWARD, EQUAL_VALUES, NORMALIZED_AXIS, RMS_NORM, RMS_NORM_BACKWARD, BACKWARD_FROM_OUTPUT)
