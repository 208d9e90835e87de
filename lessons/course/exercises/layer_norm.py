"""Exercises of lesson 6: layer norm and its backward."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.layer_norm import layer_norm_backward, layer_norm_forward

EPS = 1e-6


def random_parameters(rng, d_model):
    """gamma and beta; never ones and zeros, at which several mistakes cannot be seen."""
    return rng.uniform(0.5, 2.0, d_model) * rng.choice([-1.0, 1.0], d_model), rng.standard_normal(d_model)


# -- forward ----------------------------------------------------------------------------------------------------------


def forward_inputs(rng):
    for shape, eps in (((1, 3), 0.1), ((2, 4), EPS), ((2, 3, 4), 0.05)):
        yield 1.0 + 2.0 * rng.standard_normal(shape), *random_parameters(rng, shape[-1]), eps


def normalized(x, eps, axis=-1, ddof=0):
    return (x - x.mean(axis=axis, keepdims=True)) / np.sqrt(x.var(axis=axis, keepdims=True, ddof=ddof) + eps)


FORWARD = Exercise(
    "06_layer_norm.forward",
    forward_inputs,
    reference=lambda x, gamma, beta, eps: layer_norm_forward(x, gamma, beta, eps=eps)[0],
    tested="one position, two, and a batch, with random gamma and beta and three values of eps",
    mistakes=(
        Mistake(
            "The variance is divided by d_model - 1. Layer norm describes these d_model numbers; it estimates nothing.",
            lambda x, gamma, beta, eps: gamma * normalized(x, eps, ddof=1) + beta,
        ),
        Mistake(
            "eps is added to the standard deviation; it belongs to the variance, under the root.",
            lambda x, gamma, beta, eps: (
                gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps) + beta
            ),
        ),
        Mistake("eps is not used.", lambda x, gamma, beta, eps: gamma * normalized(x, 0.0) + beta),
        Mistake(
            "The means run over the positions (first axis): that is batch norm. Each position is normalized by itself.",
            lambda x, gamma, beta, eps: gamma * normalized(x, eps, axis=0) + beta,
        ),
        Mistake(
            "The means run over axis 1, which in a batch counts the positions: the components are the last axis, -1.",
            lambda x, gamma, beta, eps: gamma * normalized(x, eps, axis=1) + beta,
        ),
        Mistake(
            "One mean for the whole array: each position needs its own, over the last axis.",
            lambda x, gamma, beta, eps: gamma * normalized(x, eps, axis=None) + beta,
        ),
        Mistake(
            "The root is missing: the centered values are divided by the variance.",
            lambda x, gamma, beta, eps: (
                gamma * (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + eps) + beta
            ),
        ),
        Mistake("beta is missing.", lambda x, gamma, beta, eps: gamma * normalized(x, eps)),
        Mistake(
            "gamma multiplies x before the mean and the variance are taken; it belongs after them.",
            lambda x, gamma, beta, eps: normalized(gamma * x, eps) + beta,
        ),
    ),
)

# -- backward ---------------------------------------------------------------------------------------------------------


def mean_of(values):
    return values.mean(axis=-1, keepdims=True)


def backward_inputs(rng):
    for shape, eps in (((1, 3), 0.1), ((4, 5), EPS), ((2, 3, 4), 0.05)):
        yield rng.standard_normal(shape), 2.0 * rng.standard_normal(shape), random_parameters(rng, shape[-1])[0], eps


def backward(grad_y, x, gamma, eps):
    return layer_norm_backward(grad_y, layer_norm_forward(x, gamma, np.zeros_like(gamma), eps=eps)[1])


def backward_with(change):
    """The right gradients, some of them replaced: ``change(inv_std, x_hat, g, grad_y, gamma, right)`` gives them by
    number."""

    def wrong(grad_y, x, gamma, eps):
        right = backward(grad_y, x, gamma, eps)
        _, (x_hat, inv_std, _) = layer_norm_forward(x, gamma, np.zeros_like(gamma), eps=eps)
        changed = change(inv_std, x_hat, gamma * grad_y, grad_y, gamma, right)
        return tuple(changed.get(i, grad) for i, grad in enumerate(right))

    return wrong


def n_positions(grad_y):
    return grad_y.size // grad_y.shape[-1]


BACKWARD = Exercise(
    "06_layer_norm.backward",
    backward_inputs,
    reference=backward,
    tested="all three gradients of one position, of four, and of a batch, against the engine's backward",
    parts=("grad_x", "grad_gamma", "grad_beta"),
    mistakes=(
        Mistake(
            "The term through the mean is missing in grad_x: its rows must sum to zero.",
            backward_with(lambda inv, x_hat, g, grad_y, gamma, right: {0: inv * (g - x_hat * mean_of(g * x_hat))}),
        ),
        Mistake(
            "The term through the variance is missing in grad_x: each x_i also changes the divisor.",
            backward_with(lambda inv, x_hat, g, grad_y, gamma, right: {0: inv * (g - mean_of(g))}),
        ),
        Mistake(
            "Only the direct path is in grad_x: the mean and the variance depend on every x_i too.",
            backward_with(lambda inv, x_hat, g, grad_y, gamma, right: {0: inv * g}),
        ),
        Mistake(
            "gamma stands outside the means: g = gamma * grad_y belongs inside both.",
            backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: {
                    0: gamma * inv * (grad_y - mean_of(grad_y) - x_hat * mean_of(grad_y * x_hat))
                }
            ),
        ),
        Mistake(
            "gamma is missing in grad_x: the gradient of x_hat is g = gamma * grad_y.",
            backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: {
                    0: inv * (grad_y - mean_of(grad_y) - x_hat * mean_of(grad_y * x_hat))
                }
            ),
        ),
        Mistake(
            "The factor 1 / sqrt(variance + eps) is missing in grad_x: all three ways have it.",
            backward_with(lambda inv, x_hat, g, grad_y, gamma, right: {0: right[0] / inv}),
        ),
        Mistake(
            "grad_gamma and grad_beta are means over the positions, too small by their number. Both served each: sum.",
            backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: {i: right[i] / n_positions(grad_y) for i in (1, 2)}
            ),
        ),
        Mistake(
            "Sums stand in grad_x where means belong: mean(g) and mean(g * x_hat), over the d_model components.",
            backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: {0: right[0] - (len(gamma) - 1) * (inv * g - right[0])}
            ),
        ),
        Mistake(
            "One mean over the whole array stands in grad_x; each position has its own, over the last axis.",
            backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: {0: inv * (g - g.mean() - x_hat * (g * x_hat).mean())}
            ),
        ),
        Mistake(
            "x - mean stands where x_hat belongs: it must be divided by sqrt(variance + eps), in grad_gamma too.",
            backward_with(
                lambda inv, x_hat, g, grad_y, gamma, right: {
                    0: inv * (g - mean_of(g) - x_hat * mean_of(g * x_hat) / inv**2),
                    1: (grad_y * x_hat / inv).reshape(-1, len(gamma)).sum(axis=0),
                }
            ),
        ),
        Mistake(
            "grad_gamma and grad_beta are made of g = gamma * grad_y; theirs is grad_y itself.",
            backward_with(lambda inv, x_hat, g, grad_y, gamma, right: {1: gamma * right[1], 2: gamma * right[2]}),
        ),
        Mistake(
            "grad_gamma is made of x; what gamma multiplied is x_hat.",
            lambda grad_y, x, gamma, eps: (
                *(right := backward(grad_y, x, gamma, eps))[:1],
                (grad_y * x).reshape(-1, len(gamma)).sum(axis=0),
                right[2],
            ),
        ),
        Mistake(
            "grad_gamma holds gamma itself: y = gamma * x_hat + beta, so its derivative is x_hat alone.",
            backward_with(lambda inv, x_hat, g, grad_y, gamma, right: {1: gamma * right[1]}),
        ),
    ),
)
