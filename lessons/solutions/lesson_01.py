"""Solutions of lesson 1, arrays and numerical gradients."""

import numpy as np


def centered(x):
    return x - x.mean(axis=-1, keepdims=True)


def numerical_gradient(f, x, h):
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += h
        behind[index] -= h
        gradient[index] = (f(ahead) - f(behind)) / (2 * h)
    return gradient


def linear_backward(grad_y, x, weight):
    return grad_y @ weight.T, x.T @ grad_y, grad_y.sum(axis=0)


def unbroadcast(grad, shape):
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))  # the axes put in front
    for axis, size in enumerate(shape):
        if size == 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad


def is_right(forward, backward, x):
    rng = np.random.default_rng()
    grad_y = rng.standard_normal(forward(x).shape)
    direction = rng.standard_normal(x.shape)
    h = 1e-5
    numerical = (grad_y * (forward(x + h * direction) - forward(x - h * direction))).sum() / (2 * h)
    analytic = (backward(grad_y, x) * direction).sum()
    return bool(abs(numerical - analytic) < 1e-4 * abs(numerical))
