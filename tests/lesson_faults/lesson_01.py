"""Planted faults of lesson 1: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_01 as right


def centred_columns(x):
    return x - np.average(x, axis=0)


def centred_without_keepdims(x):
    return x - x.sum(axis=-1) / x.shape[-1]


def centred_at_once(x):
    return x - x.sum() / x.size


def centred_in_place(x):
    x -= x.mean(axis=-1, keepdims=True)
    return x


def gradient_one_sided(f, x, h):
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        moved = x.copy()
        moved[i] += h
        gradient[i] = (f(moved) - f(x)) / h
    return gradient


def gradient_over_h(f, x, h):
    return 2 * right.numerical_gradient(f, x, h)


def gradient_that_wanders(f, x, h):
    moved, gradient = x.copy(), np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        moved[i] += h
        ahead = f(moved)
        moved[i] -= 2 * h
        gradient[i] = (ahead - f(moved)) / (2 * h)
    return gradient


def gradient_of_the_first(f, x, h):
    return right.numerical_gradient(f, x, h).flat[0]


def linear_untransposed(grad_y, x, weight):
    return np.einsum("ti,ij->tj", grad_y, weight), x.T @ grad_y, grad_y.sum(axis=0)


def linear_mean_bias(grad_y, x, weight):
    return grad_y @ weight.T, x.T @ grad_y, grad_y.sum(axis=0) / grad_y.shape[0]


def linear_bias_not_summed(grad_y, x, weight):
    return grad_y @ weight.T, x.T @ grad_y, grad_y


def linear_weight_transposed(grad_y, x, weight):
    return grad_y @ weight.T, (x.T @ grad_y).T, grad_y.sum(axis=0)


def unbroadcast_by_mean(grad, shape):
    grad = grad.mean(axis=tuple(range(grad.ndim - len(shape))))
    for axis, size in enumerate(shape):
        grad = grad.mean(axis=axis, keepdims=True) if size == 1 else grad
    return grad


def unbroadcast_in_front_only(grad, shape):
    return grad.sum(axis=tuple(range(grad.ndim - len(shape))))


def unbroadcast_first_copy(grad, shape):
    while grad.ndim > len(shape):
        grad = grad[0]
    return grad[:, :1] if shape == (2, 1) else grad


def judge_of_sums(forward, backward, x):
    d = np.random.default_rng(3).standard_normal(x.shape)
    numerical = (forward(x + 1e-6 * d) - forward(x - 1e-6 * d)).sum() / 2e-6
    return bool(np.isclose(numerical, (backward(np.ones(x.shape), x) * d).sum(), rtol=1e-4, atol=1e-9))


def judge_by_absolute_difference(forward, backward, x):
    grad_y, d = np.random.default_rng(4).standard_normal((2, *x.shape))
    numerical = (grad_y * (forward(x + 1e-5 * d) - forward(x - 1e-5 * d))).sum() / 2e-5
    return bool(abs(numerical - (backward(grad_y, x) * d).sum()) < 1e-5)


def judge_of_shapes(forward, backward, x):
    return backward(forward(x), x).shape == x.shape


def judge_along_ones(forward, backward, x):
    grad_y = np.random.default_rng(5).standard_normal(x.shape)
    numerical = (grad_y * (forward(x + 1e-5) - forward(x - 1e-5))).sum() / 2e-5
    return bool(abs(numerical - backward(grad_y, x).sum()) <= 1e-5 * abs(numerical) + 1e-10)


FAULTS = {
    "centred": [
        (centred_columns, "over the first axis"),
        (centred_without_keepdims, "keepdims is missing"),
        (centred_at_once, "One mean for the whole array"),
        (centred_in_place, "changed its input x"),
    ],
    "numerical_gradient": [
        (gradient_one_sided, "one-sided, f(x + h) - f(x)"),
        (gradient_over_h, "Twice too large"),
        (gradient_that_wanders, "not put back"),
        (gradient_of_the_first, "must be an array of shape (1,)"),
    ],
    "linear_backward": [
        (linear_untransposed, "not transposed in grad_x"),
        (linear_mean_bias, "grad_bias is too small by the number of positions"),
        (linear_bias_not_summed, "must have the shape (2,), got (2, 2)"),
        (linear_weight_transposed, "transposed grad_weight"),
    ],
    "unbroadcast": [
        (unbroadcast_by_mean, "Too small by the number of copies"),
        (unbroadcast_in_front_only, "must have the shape (2, 1), got (2, 3)"),
        (unbroadcast_first_copy, "Only the first copy"),
    ],
    "is_right": [
        (judge_of_sums, "Draw grad_y at random"),
        (judge_by_absolute_difference, "relative to its size"),
        (judge_of_shapes, "Everything was called right"),
        (judge_along_ones, "Draw the direction at random"),
    ],
}
