"""Exercises of lesson 6: layer norm and residuals."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.gradients import gradients_by_tape
from minitransformer.ops.layer_norm import layer_norm_backward, layer_norm_forward

EPS = 1e-6


def random_parameters(rng, d_model):
    """gamma and beta; never ones and zeros, at which several mistakes cannot be seen."""
    return rng.uniform(0.5, 2.0, d_model) * rng.choice([-1.0, 1.0], d_model), rng.standard_normal(d_model)


# -- forward ----------------------------------------------------------------------------------------------------------


def forward_inputs(rng):
    for shape, eps in (((1, 3), 0.1), ((2, 4), EPS), ((2, 3, 4), 0.05)):
        yield 1.0 + 2.0 * rng.standard_normal(shape), *random_parameters(rng, shape[-1]), eps


def normalised(x, eps, axis=-1, ddof=0):
    return (x - x.mean(axis=axis, keepdims=True)) / np.sqrt(x.var(axis=axis, keepdims=True, ddof=ddof) + eps)


FORWARD = Exercise(
    "06_layer_norm.forward",
    forward_inputs,
    reference=lambda x, gamma, beta, eps: layer_norm_forward(x, gamma, beta, eps=eps)[0],
    tested="one position, two, and a batch, with random gamma and beta and three values of eps",
    mistakes=(
        Mistake(
            "The variance is divided by d_model - 1. Layer norm describes these d_model numbers; it estimates nothing.",
            lambda x, gamma, beta, eps: gamma * normalised(x, eps, ddof=1) + beta,
        ),
        Mistake(
            "eps is added to the standard deviation; it belongs to the variance, under the root.",
            lambda x, gamma, beta, eps: (
                gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps) + beta
            ),
        ),
        Mistake("eps is not used.", lambda x, gamma, beta, eps: gamma * normalised(x, 0.0) + beta),
        Mistake(
            "The means run over the positions (first axis): that is batch norm. Each position is normalised by itself.",
            lambda x, gamma, beta, eps: gamma * normalised(x, eps, axis=0) + beta,
        ),
        Mistake(
            "One mean for the whole array: each position needs its own, over the last axis.",
            lambda x, gamma, beta, eps: gamma * normalised(x, eps, axis=None) + beta,
        ),
        Mistake(
            "The root is missing: the centred values are divided by the variance.",
            lambda x, gamma, beta, eps: (
                gamma * (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + eps) + beta
            ),
        ),
        Mistake("beta is missing.", lambda x, gamma, beta, eps: gamma * normalised(x, eps)),
        Mistake(
            "gamma multiplies x before the mean and the variance are taken; it belongs after them.",
            lambda x, gamma, beta, eps: normalised(gamma * x, eps) + beta,
        ),
    ),
)

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

# -- normalised_axis --------------------------------------------------------------------------------------------------


def norm_over(axes, scale):
    """A norm over these axes. Its name gives nothing away."""

    def norm(x):
        return scale * normalised(x, EPS, axis=axes)

    return norm


AXES = (2, 1, 0)


def normalised_axis_inputs(rng):
    return [(norm_over(axis, scale), (2, 3, 4)) for axis, scale in zip(AXES, (1.0, 0.5, 3.0), strict=True)]


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


NORMALISED_AXIS = Exercise(
    "06_layer_norm.normalised_axis",
    normalised_axis_inputs,
    reference=lambda norm, shape: probing(own_constant)(norm, shape),
    tested="norms over each of the three axes, with three output scales",
    mistakes=(
        Mistake(
            "The answer is always 0. A constant added to all of x, or one factor, is undone by every norm: give each "
            "line along the axis a constant of its own.",
            probing(lambda x, axis: x + 1.0),
        ),
        Mistake(
            "The answer is the first axis that is not normalised. Along the right one the result's mean vanishes, and "
            "a constant for each line along it changes nothing.",
            lambda norm, shape: next(axis for axis in range(3) if axis != probing(own_constant)(norm, shape)),
        ),
        Mistake("The answer is always the last axis; this norm was not asked.", lambda norm, shape: 2),
    ),
)

# -- rms_norm_backward ------------------------------------------------------------------------------------------------


def rms_norm(x, gamma, eps):
    """gamma x / sqrt(mean(x^2) + eps)      [Zhang & Sennrich 2019]; for arrays and for tensors"""
    return x * ((x * x).mean(axis=-1, keepdims=True) + eps) ** -0.5 * gamma


def rms_inputs(rng):
    for shape, eps in (((1, 2), 0.25), ((2, 3), 0.01), ((4, 5, 8), EPS)):
        yield rng.standard_normal(shape), 1.0 + rng.standard_normal(shape), random_parameters(rng, shape[-1])[0], eps


def rms_norm_backward(grad_y, x, gamma, eps):
    return gradients_by_tape(lambda x, gamma: rms_norm(x, gamma, eps), grad_y, x, gamma)


def rms_parts(grad_y, x, gamma, eps):
    inv_rms = ((x * x).mean(axis=-1, keepdims=True) + eps) ** -0.5
    return inv_rms, x * inv_rms, gamma * grad_y


def rms_backward_with(grad_x=None, grad_gamma=None):
    """The right gradients, with one of them replaced by ``replacement(inv_rms, x_hat, g, grad_y, gamma, right)``."""

    def wrong(grad_y, x, gamma, eps):
        right = rms_norm_backward(grad_y, x, gamma, eps)
        parts = (*rms_parts(grad_y, x, gamma, eps), grad_y, gamma)
        return tuple(
            given(*parts, value) if given else value for given, value in zip((grad_x, grad_gamma), right, strict=True)
        )

    return wrong


def mean_of(values):
    return values.mean(axis=-1, keepdims=True)


RMS_NORM_BACKWARD = Exercise(
    "06_layer_norm.rms_norm_backward",
    rms_inputs,
    reference=rms_norm_backward,
    tested="both gradients at three sizes, against the tape walking through the forward",
    mistakes=(
        Mistake(
            "The term through the mean, mean(g), is layer norm's. RMSNorm takes no mean away, so nothing flows there.",
            rms_backward_with(lambda inv, x_hat, g, grad_y, gamma, right: right - inv * mean_of(g)),
        ),
        Mistake(
            "The term through the root mean square is missing: each x_i also changes the divisor.",
            rms_backward_with(lambda inv, x_hat, g, grad_y, gamma, right: inv * g),
        ),
        Mistake(
            "gamma stands outside the mean: g = gamma * grad_y belongs inside mean(g * x_hat).",
            rms_backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: inv * gamma * (grad_y - x_hat * mean_of(grad_y * x_hat))
            ),
        ),
        Mistake(
            "A sum stands where the mean over d_model belongs: the correction is d_model times too large.",
            rms_backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: inv * (g - x_hat * (g * x_hat).sum(-1, keepdims=True))
            ),
        ),
        Mistake(
            "grad_gamma is a mean over the positions, too small by their number. gamma served each: sum.",
            rms_backward_with(
                None, lambda inv, x_hat, g, grad_y, gamma, right: right / (grad_y.size / grad_y.shape[-1])
            ),
        ),
        Mistake(
            "grad_gamma holds gamma itself: y = gamma * x_hat, so its derivative is x_hat alone.",
            rms_backward_with(None, lambda inv, x_hat, g, grad_y, gamma, right: right * gamma),
        ),
    ),
)

# -- backward_from_output ---------------------------------------------------------------------------------------------


def from_output_inputs(rng):
    for shape in ((1, 3), (2, 3, 4)):
        gamma, beta = random_parameters(rng, shape[-1])
        y, (_, inv_std, _) = layer_norm_forward(2.0 * rng.standard_normal(shape), gamma, beta)
        yield rng.standard_normal(shape), y, inv_std, gamma, beta


def backward_from(x_hat_of):
    """Layer norm's backward with x_hat recomputed by ``x_hat_of(y, gamma, beta)``."""

    def backward(grad_y, y, inv_std, gamma, beta):
        return layer_norm_backward(grad_y, (x_hat_of(y, gamma, beta), inv_std, gamma))

    return backward


BACKWARD_FROM_OUTPUT = Exercise(
    "06_layer_norm.backward_from_output",
    from_output_inputs,
    reference=lambda grad_y, y, inv_std, gamma, beta: backward_from(lambda y, gamma, beta: (y - beta) / gamma)(
        grad_y, y, inv_std, gamma, beta
    ),
    tested="all three gradients of one position and of a batch, with random gamma and beta",
    mistakes=(
        Mistake("y is used for x_hat: take beta away and divide by gamma.", backward_from(lambda y, gamma, beta: y)),
        Mistake("beta is not taken away.", backward_from(lambda y, gamma, beta: y / gamma)),
        Mistake("gamma is not divided out of y.", backward_from(lambda y, gamma, beta: y - beta)),
        Mistake(
            "beta is subtracted after the division; forward added it last, so subtract it first.",
            backward_from(lambda y, gamma, beta: y / gamma - beta),
        ),
        Mistake(
            "gamma stands outside the means: g = gamma * grad_y belongs inside both.",
            lambda grad_y, y, inv_std, gamma, beta: (
                gamma * layer_norm_backward(grad_y, ((y - beta) / gamma, inv_std, np.ones_like(gamma)))[0],
                *layer_norm_backward(grad_y, ((y - beta) / gamma, inv_std, gamma))[1:],
            ),
        ),
    ),
)

EXERCISES = (FORWARD, EQUAL_VALUES, NORMALISED_AXIS, RMS_NORM_BACKWARD, BACKWARD_FROM_OUTPUT)
