"""Planted faults of lesson 6: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_part, with_result

from solutions import lesson_06 as right


def forward_estimates(x, gamma, beta, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = (centred**2).sum(axis=-1, keepdims=True) / max(x.shape[-1] - 1, 1)
    return centred / np.sqrt(variance + eps) * gamma + beta


def axis_by_one_constant(norm, shape):
    x = np.arange(24.0).reshape(shape) ** 2
    return next(axis for axis in range(3) if np.allclose(norm(x + 5.0), norm(x), atol=1e-3))


def axis_by_sum(norm, shape):
    y = norm(np.random.default_rng(3).standard_normal(shape))
    return next(axis for axis in range(3) if abs(y.sum(axis=axis)).max() > 0.01)


def inv_rms(x, eps):
    return 1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def rms_as_layer_norm(grad_y, x, gamma, eps):
    grad_x, grad_gamma = right.rms_norm_backward(grad_y, x, gamma, eps)
    return grad_x - inv_rms(x, eps) * (gamma * grad_y).mean(axis=-1, keepdims=True), grad_gamma


def grad_x_of_three_ways(grad_y, x, gamma, eps, mean=1.0, variance=1.0):
    inv_std = 1.0 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    x_hat, g = (x - x.mean(axis=-1, keepdims=True)) * inv_std, grad_y * gamma
    ways = mean * g.mean(axis=-1, keepdims=True) + variance * x_hat * np.mean(g * x_hat, axis=-1, keepdims=True)
    return inv_std * (g - ways)


FAULTS = {
    "forward": {
        "divided by d_model - 1": forward_estimates,
        "eps is added to the standard deviation": lambda x, gamma, beta, eps: (
            (x - x.mean(axis=-1, keepdims=True)) / (x.std(axis=-1, keepdims=True) + eps) * gamma + beta
        ),
        "that is batch norm": lambda x, gamma, beta, eps: (
            (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps) * gamma + beta
        ),
        "The means run over axis 1": lambda x, gamma, beta, eps: (
            (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps) * gamma + beta
        ),
        "beta is missing": lambda x, gamma, beta, eps: right.forward(x, gamma, 0.0 * beta, eps),
    },
    "backward": {
        "The term through the mean is missing": with_part(
            right.backward, 0, lambda grad_y, x, gamma, eps: grad_x_of_three_ways(grad_y, x, gamma, eps, mean=0.0)
        ),
        "The term through the variance is missing": with_part(
            right.backward, 0, lambda grad_y, x, gamma, eps: grad_x_of_three_ways(grad_y, x, gamma, eps, variance=0.0)
        ),
        "gamma stands outside the means": with_part(
            right.backward,
            0,
            lambda grad_y, x, gamma, eps: gamma * right.backward(grad_y, x, np.ones_like(gamma), eps)[0],
        ),
        "means over the positions": with_result(
            right.backward,
            lambda grad_x, *grads: (grad_x, *(grad / (grad_x.size // len(grad)) for grad in grads)),
        ),
        "grad_gamma holds gamma itself": with_part(
            right.backward, 1, lambda grad_y, x, gamma, eps: right.backward(gamma * grad_y, x, gamma, eps)[1]
        ),
    },
    "equal_values": {
        "The gradient is not zero": lambda grad_y, gamma, eps: 0.0 * grad_y,
        "The mean term is missing": lambda grad_y, gamma, eps: gamma * grad_y * eps**-0.5,
        "gamma stands outside the mean": lambda grad_y, gamma, eps: (
            gamma * right.equal_values(grad_y, np.ones_like(gamma), eps)
        ),
    },
    "normalised_axis": {
        "The answer is always the last axis": lambda norm, shape: len(shape) - 1,
        "give each line along the axis a constant of its own": axis_by_one_constant,
        "the first axis that is not normalised": axis_by_sum,
    },
    "rms_norm": {
        "that is layer norm": lambda x, gamma, eps: right.forward(x, gamma, 0.0 * gamma, eps),
        "their standard deviation": lambda x, gamma, eps: gamma * x / (x.std(axis=-1, keepdims=True) ** 2 + eps) ** 0.5,
        "eps stands outside the root": lambda x, gamma, eps: gamma * x / (1.0 / inv_rms(x, 0.0) + eps),
        "A sum stands where the mean": lambda x, gamma, eps: (
            right.rms_norm(x, gamma, eps / x.shape[-1]) / x.shape[-1] ** 0.5
        ),
        "One mean for the whole array": lambda x, gamma, eps: gamma * x / np.sqrt(np.mean(x**2) + eps),
    },
    "rms_norm_backward": {
        "RMSNorm takes no mean away": rms_as_layer_norm,
        "term through the root mean square is missing": with_part(
            right.rms_norm_backward, 0, lambda grad_y, x, gamma, eps: gamma * grad_y * inv_rms(x, eps)
        ),
        "gamma stands outside the mean": lambda grad_y, x, gamma, eps: (
            gamma * right.rms_norm_backward(grad_y, x, np.ones_like(gamma), eps)[0],
            right.rms_norm_backward(grad_y, x, gamma, eps)[1],
        ),
        "too small by their number": with_result(
            right.rms_norm_backward, lambda grad_x, grad_gamma: (grad_x, grad_gamma * grad_gamma.size / grad_x.size)
        ),
    },
    "backward_from_output": {
        "y is used for x_hat": lambda grad_y, y, inv_std, gamma, beta: right.backward_from_output(
            grad_y, y * gamma + beta, inv_std, gamma, beta
        ),
        "beta is not taken away": lambda grad_y, y, inv_std, gamma, beta: right.backward_from_output(
            grad_y, y + beta, inv_std, gamma, beta
        ),
        "gamma is not divided out": lambda grad_y, y, inv_std, gamma, beta: right.backward_from_output(
            grad_y, (y - beta) * gamma + beta, inv_std, gamma, beta
        ),
    },
}
