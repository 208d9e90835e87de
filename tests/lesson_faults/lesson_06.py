"""Planted faults of lesson 6: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_06 as right


def forward_estimates(x, gamma, beta, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = (centred**2).sum(axis=-1, keepdims=True) / max(x.shape[-1] - 1, 1)
    return centred / np.sqrt(variance + eps) * gamma + beta


def forward_eps_outside(x, gamma, beta, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / (np.sqrt((centred**2).mean(axis=-1, keepdims=True)) + eps) * gamma + beta


def axis_by_one_constant(norm, shape):
    x = np.arange(24.0).reshape(shape) ** 2
    return next(axis for axis in range(3) if np.allclose(norm(x + 5.0), norm(x), atol=1e-3))


def axis_by_sum(norm, shape):
    y = norm(np.random.default_rng(3).standard_normal(shape))
    return next(axis for axis in range(3) if abs(y.sum(axis=axis)).max() > 0.01)


def rms_as_layer_norm(grad_y, x, gamma, eps):
    inv_rms = 1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    grad_x, grad_gamma = right.rms_norm_backward(grad_y, x, gamma, eps)
    return grad_x - inv_rms * (gamma * grad_y).mean(axis=-1, keepdims=True), grad_gamma


def rms_direct(grad_y, x, gamma, eps):
    _, grad_gamma = right.rms_norm_backward(grad_y, x, gamma, eps)
    return gamma * grad_y / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps), grad_gamma


def rms_gamma_outside(grad_y, x, gamma, eps):
    grad_x, grad_gamma = right.rms_norm_backward(grad_y, x, np.ones_like(gamma), eps)
    return gamma * grad_x, grad_gamma


def rms_gamma_mean(grad_y, x, gamma, eps):
    grad_x, grad_gamma = right.rms_norm_backward(grad_y, x, gamma, eps)
    return grad_x, grad_gamma * x.shape[-1] / x.size


def output_as_x_hat(grad_y, y, inv_std, gamma, beta):
    return right.backward_from_output(grad_y, y * gamma + beta, inv_std, gamma, beta)


def output_without_division(grad_y, y, inv_std, gamma, beta):
    return right.backward_from_output(grad_y, (y - beta) * gamma + beta, inv_std, gamma, beta)


FAULTS = {
    "forward": [
        (forward_estimates, "divided by d_model - 1"),
        (forward_eps_outside, "eps is added to the standard deviation"),
        (
            lambda x, gamma, beta, eps: (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps) * gamma + beta,
            "that is batch norm",
        ),
        (lambda x, gamma, beta, eps: right.forward(x, gamma, 0.0 * beta, eps), "beta is missing"),
    ],
    "equal_values": [
        (lambda grad_y, gamma, eps: 0.0 * grad_y, "The gradient is not zero"),
        (lambda grad_y, gamma, eps: gamma * grad_y * eps**-0.5, "The mean term is missing"),
        (
            lambda grad_y, gamma, eps: gamma * right.equal_values(grad_y, np.ones_like(gamma), eps),
            "gamma stands outside the mean",
        ),
    ],
    "normalised_axis": [
        (lambda norm, shape: len(shape) - 1, "The answer is always the last axis"),
        (axis_by_one_constant, "give each line along the axis a constant of its own"),
        (axis_by_sum, "the first axis that is not normalised"),
    ],
    "rms_norm_backward": [
        (rms_as_layer_norm, "RMSNorm takes no mean away"),
        (rms_direct, "term through the root mean square is missing"),
        (rms_gamma_outside, "gamma stands outside the mean"),
        (rms_gamma_mean, "too small by their number"),
    ],
    "backward_from_output": [
        (output_as_x_hat, "y is used for x_hat"),
        (
            lambda grad_y, y, inv_std, gamma, beta: right.backward_from_output(grad_y, y + beta, inv_std, gamma, beta),
            "beta is not taken away",
        ),
        (output_without_division, "gamma is not divided out"),
    ],
}
