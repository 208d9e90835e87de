"""Exercises of lesson 6: RMSNorm and its backward."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.layer_norm import EPS, mean_of, normalized, random_parameters
from course.gradients import gradients_by_tape

# -- rms_norm and its backward ----------------------------------------------------------------------------------------


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


RMS_NORM = Exercise(
    "06_layer_norm.rms_norm",
    lambda rng: [inputs[1:] for inputs in rms_inputs(rng)],
    reference=rms_norm,
    tested="one position, two, and a batch, with random gamma and three values of eps",
    mistakes=(
        Mistake(
            "The mean is subtracted: that is layer norm. RMSNorm only divides.",
            lambda x, gamma, eps: gamma * normalized(x, eps),
        ),
        Mistake(
            "The mean is subtracted in the numerator. RMSNorm leaves x as it is and only divides.",
            lambda x, gamma, eps: rms_norm(x, gamma, eps) - mean_of(x) * rms_norm(x, gamma, eps) / x,
        ),
        Mistake(
            "The values are divided by their standard deviation, of which the mean is a part: square x, not x - mean.",
            lambda x, gamma, eps: gamma * x / np.sqrt(x.var(axis=-1, keepdims=True) + eps),
        ),
        Mistake(
            "eps stands outside the root; it is added to the mean square.",
            lambda x, gamma, eps: gamma * x / (np.sqrt(mean_of(x * x)) + eps),
        ),
        Mistake("eps is not used.", lambda x, gamma, eps: rms_norm(x, gamma, 0.0)),
        Mistake("The root is missing.", lambda x, gamma, eps: gamma * x / (mean_of(x * x) + eps)),
        Mistake(
            "A sum stands where the mean of the squares belongs.",
            lambda x, gamma, eps: gamma * x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + eps),
        ),
        Mistake(
            "One mean for the whole array: each position needs its own, over the last axis.",
            lambda x, gamma, eps: gamma * x / np.sqrt((x * x).mean() + eps),
        ),
        Mistake("gamma is missing.", lambda x, gamma, eps: rms_norm(x, 1.0, eps)),
    ),
)

RMS_NORM_BACKWARD = Exercise(
    "06_layer_norm.rms_norm_backward",
    rms_inputs,
    reference=rms_norm_backward,
    tested="both gradients at three sizes, against the tape walking through the forward",
    parts=("grad_x", "grad_gamma"),
    mistakes=(
        Mistake(
            "The term through the mean, mean(g), is layer norm's. RMSNorm subtracts no mean, so nothing flows there.",
            rms_backward_with(lambda inv, x_hat, g, grad_y, gamma, right: right - inv * mean_of(g)),
        ),
        Mistake(
            "The term through the root mean square is missing: each x_i also changes the divisor.",
            rms_backward_with(lambda inv, x_hat, g, grad_y, gamma, right: inv * g),
        ),
        Mistake(
            "gamma is missing in grad_x: the gradient of x_hat is g = gamma * grad_y.",
            rms_backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: inv * (grad_y - x_hat * mean_of(grad_y * x_hat))
            ),
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
