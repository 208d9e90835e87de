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


FAULTS = {
    "forward": {
        "divided by d_model - 1": forward_estimates,
        "eps is added to the standard deviation": lambda x, gamma, beta, eps: (
            (x - x.mean(axis=-1, keepdims=True)) / (x.std(axis=-1, keepdims=True) + eps) * gamma + beta
        ),
        "that is batch norm": lambda x, gamma, beta, eps: (
            (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps) * gamma + beta
        ),
        "beta is missing": lambda x, gamma, beta, eps: right.forward(x, gamma, 0.0 * beta, eps),
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
