"""Planted faults of lesson 1: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_part

from solutions import lesson_01 as right


def gradient_that_wanders(f, x, h):
    moved, gradient = x.copy(), np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        moved[i] += h
        ahead = f(moved)
        moved[i] -= 2 * h
        gradient[i] = (ahead - f(moved)) / (2 * h)
    return gradient


def unbroadcast_by_mean(grad, shape):
    grad = grad.mean(axis=tuple(range(grad.ndim - len(shape))))
    for axis, size in enumerate(shape):
        grad = grad.mean(axis=axis, keepdims=True) if size == 1 else grad
    return grad


def unbroadcast_first_copy(grad, shape):
    while grad.ndim > len(shape):
        grad = grad[0]
    return grad[:, :1] if shape == (2, 1) else grad


def unbroadcast_and_squeezed(grad, shape):
    for axis in reversed([i - len(shape) for i, size in enumerate(shape) if size == 1]):
        grad = grad.sum(axis=axis)
    return grad.sum(axis=tuple(range(grad.ndim - np.count_nonzero(np.array(shape) != 1))))


def judge_of_sums(forward, backward, x):
    d = np.random.default_rng(3).standard_normal(x.shape)
    numerical = (forward(x + 1e-6 * d) - forward(x - 1e-6 * d)).sum() / 2e-6
    return bool(np.isclose(numerical, (backward(np.ones(x.shape), x) * d).sum(), rtol=1e-4, atol=1e-9))


def judge_by_absolute_difference(forward, backward, x):
    grad_y, d = np.random.default_rng(4).standard_normal((2, *x.shape))
    numerical = (grad_y * (forward(x + 1e-5 * d) - forward(x - 1e-5 * d))).sum() / 2e-5
    return bool(abs(numerical - (backward(grad_y, x) * d).sum()) < 1e-5)


def judge_by_isclose(forward, backward, x):
    grad_y, d = np.random.default_rng(6).standard_normal((2, *x.shape))
    numerical = (grad_y * (forward(x + 1e-5 * d) - forward(x - 1e-5 * d))).sum() / 2e-5
    return bool(np.isclose(numerical, (backward(grad_y, x) * d).sum()))


def judge_along_ones(forward, backward, x):
    grad_y = np.random.default_rng(5).standard_normal(x.shape)
    numerical = (grad_y * (forward(x + 1e-5) - forward(x - 1e-5))).sum() / 2e-5
    return bool(abs(numerical - backward(grad_y, x).sum()) <= 1e-5 * abs(numerical) + 1e-10)


FAULTS = {
    "centred": {
        "over the first axis": lambda x: x - np.average(x, axis=0),
        "keepdims is missing": lambda x: x - x.sum(axis=-1) / x.shape[-1],
        "One mean for the whole array": lambda x: x - x.sum() / x.size,
        "changed its input x": lambda x: np.subtract(x, x.mean(axis=-1, keepdims=True), out=x),
    },
    "numerical_gradient": {
        "one-sided, f(x + h) - f(x)": lambda f, x, h: np.reshape(
            [(f(x + step) - f(x)) / h for step in h * np.eye(x.size).reshape(-1, *x.shape)], x.shape
        ),
        "Twice too large": lambda f, x, h: 2 * right.numerical_gradient(f, x, h),
        "not put back": gradient_that_wanders,
        "must be an array of shape (1,)": lambda f, x, h: right.numerical_gradient(f, x, h).flat[0],
    },
    "linear_backward": {
        "not transposed in grad_x": with_part(
            right.linear_backward, 0, lambda grad_y, x, weight: np.einsum("ti,ij->tj", grad_y, weight)
        ),
        "grad_bias is too small by the number of positions": with_part(
            right.linear_backward, 2, lambda grad_y, x, weight: grad_y.sum(axis=0) / grad_y.shape[0]
        ),
        "must have the shape (2,), got (2, 2)": with_part(right.linear_backward, 2, lambda grad_y, *rest: grad_y),
        "transposed grad_weight": with_part(right.linear_backward, 1, lambda grad_y, x, weight: (x.T @ grad_y).T),
    },
    "unbroadcast": {
        "Too small by the number of copies": unbroadcast_by_mean,
        "must have the shape (2, 1), got (2, 3)": lambda grad, shape: grad.sum(
            axis=tuple(range(grad.ndim - len(shape)))
        ),
        "Only the first copy": unbroadcast_first_copy,
        "keepdims=True": unbroadcast_and_squeezed,
        "Everything is summed": lambda grad, shape: np.sum(grad),
    },
    "is_right": {
        "Draw grad_y at random": judge_of_sums,
        "relative to its size": judge_by_absolute_difference,
        "Everything was called right": lambda forward, backward, x: backward(forward(x), x).shape == x.shape,
        "Draw the direction at random": judge_along_ones,
        "forgive 1e-8 whatever the size": judge_by_isclose,
    },
}
