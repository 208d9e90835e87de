"""Planted faults of lesson 1: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_01 as right

FAULTS = {
    "centered": {
        "over the first axis": lambda x: x - np.average(x, axis=0),
        "keepdims is missing": lambda x: x - x.sum(axis=-1) / x.shape[-1],
        "One mean for the whole array": lambda x: x - x.sum() / x.size,
        "changed its input x": lambda x: np.subtract(x, x.mean(axis=-1, keepdims=True), out=x),
    },
    "numerical_gradient": {
        "one-sided, f(x + h) - f(x)": "- f(behind)) / (2 * h) -> - f(x)) / h",
        "Twice too large": lambda f, x, h: 2 * right.numerical_gradient(f, x, h),
        "must be an array of shape (1,)": lambda f, x, h: right.numerical_gradient(f, x, h).flat[0],
    },
    "linear_backward": {
        "grad_bias is summed over the outputs": "axis=0 -> axis=1",
        "not transposed in grad_x": "weight.T -> weight",
        "grad_bias is too small by the number of positions": "grad_y.sum( -> grad_y.mean(",
        "must have the shape (2,), got (2, 2)": "grad_y.sum(axis=0) -> grad_y",
        "transposed grad_weight": "x.T @ grad_y -> grad_y.T @ x",
    },
    "unbroadcast": {
        "Too small by the number of copies": ("sum(axis=tuple -> mean(axis=tuple", "sum(axis=axis -> mean(axis=axis"),
        "must have the shape (2, 1), got (2, 3)": "grad.sum(axis=axis, keepdims=True) -> grad",
        "must have the shape (1, 2, 1), got (1, 2, 3)": "grad = grad.sum(axis=axis, -> return grad.sum(axis=axis,",
        "Only the first copy": (
            ".sum(axis=tuple(range(grad.ndim - len(shape)))) -> [(0,) * (grad.ndim - len(shape))]",
            ".sum(axis=axis, keepdims=True) -> .take([0], axis=axis)",
        ),
        "keepdims=True": (", keepdims=True -> ", "enumerate(shape) -> reversed([*enumerate(shape)])"),
        "Everything is summed": lambda grad, shape: np.sum(grad),
    },
    "is_right": {
        "Draw grad_y at random": "rng.standard_normal(forward(x).shape) -> np.ones(x.shape)",
        "relative to its size": "1e-4 * abs(numerical) -> 1e-5",
        "Everything was called right": lambda forward, backward, x: backward(forward(x), x).shape == x.shape,
        "Draw the direction at random": "rng.standard_normal(x.shape) -> np.ones(x.shape)",
        "right in its first number alone": "direction = -> direction = (np.arange(x.size) == 0) *",
        "forgive 1e-8 whatever the size": "1e-4 * abs(numerical) -> 1e-8 + 1e-5 * abs(analytic)",
    },
}
