"""Solutions of lesson 6, layer norm and residuals."""

import numpy as np


def forward(x, gamma, beta, eps):
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return gamma * centered / np.sqrt(variance + eps) + beta


def backward(grad_y, x, gamma, eps):
    centered = x - x.mean(axis=-1, keepdims=True)
    inv_std = 1.0 / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + eps)
    x_hat = centered * inv_std
    g = gamma * grad_y
    grad_x = inv_std * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    positions = tuple(range(x.ndim - 1))
    return grad_x, (grad_y * x_hat).sum(axis=positions), grad_y.sum(axis=positions)


def equal_values(grad_y, gamma, eps):
    g = gamma * grad_y  # x_hat = 0: only the direct path and the mean are left
    return (g - g.mean(axis=-1, keepdims=True)) / np.sqrt(eps)


def normalized_axis(norm, shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    for axis in range(len(shape)):
        one_per_line = [1 if i == axis else size for i, size in enumerate(shape)]
        if np.allclose(norm(x + rng.standard_normal(one_per_line)), norm(x), atol=1e-4):
            return axis
    return None


def rms_norm(x, gamma, eps):
    return gamma * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def rms_norm_backward(grad_y, x, gamma, eps):
    inv_rms = 1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    x_hat = x * inv_rms
    grad_gamma = (grad_y * x_hat).sum(axis=tuple(range(x.ndim - 1)))
    g = gamma * grad_y
    grad_x = inv_rms * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return grad_x, grad_gamma


def backward_from_output(grad_y, y, inv_std, gamma, beta):
    # The decoder's 18 norms of the base model keep 18 * 512 numbers less for each target token, 230 million for 25,000.
    # Where a gamma is 0, or near it, x_hat is not in the output any more.
    x_hat = (y - beta) / gamma
    positions = tuple(range(y.ndim - 1))
    g = gamma * grad_y
    through_variance = x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    grad_x = inv_std * (g - g.mean(axis=-1, keepdims=True) - through_variance)
    return grad_x, (grad_y * x_hat).sum(axis=positions), grad_y.sum(axis=positions)
