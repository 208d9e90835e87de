"""Planted faults of lesson 6: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_06 as right


def axis_by_one_constant(norm, shape):
    x = np.arange(60.0).reshape(shape) ** 2
    return next(axis for axis in range(3) if np.allclose(norm(x + 5.0), norm(x), atol=1e-3))


def axis_by_sum(norm, shape):
    y = norm(np.random.default_rng(3).standard_normal(shape))
    return next(axis for axis in range(3) if abs(y.sum(axis=axis)).max() > 0.01)


FAULTS = {
    "forward": {
        "divided by d_model - 1": "variance + eps -> variance * x.shape[-1] / max(x.shape[-1] - 1, 1) + eps",
        "eps is added to the standard deviation": "np.sqrt(variance + eps) -> (np.sqrt(variance) + eps)",
        "that is batch norm": ("x.mean(axis=-1 -> x.mean(axis=0", "centered).mean(axis=-1 -> centered).mean(axis=0"),
        "The means run over axis 1": (
            "x.mean(axis=-1 -> x.mean(axis=1",
            "centered).mean(axis=-1 -> centered).mean(axis=1",
        ),
        "beta is missing": lambda x, gamma, beta, eps: right.forward(x, gamma, 0.0 * beta, eps),
    },
    "backward": {
        "The term through the mean is missing": " - g.mean(axis=-1, keepdims=True) -> ",
        "The term through the variance is missing": " - x_hat * (g * x_hat).mean(axis=-1, keepdims=True) -> ",
        "gamma stands outside the means": ("g = gamma * -> g = ", "grad_x = -> grad_x = gamma *"),
        "Sums stand in grad_x": (" g.mean( ->  g.sum(", "x_hat).mean( -> x_hat).sum("),
        "One mean over the whole array": (
            " g.mean(axis=-1, keepdims=True) ->  g.mean()",
            "x_hat).mean(axis=-1, keepdims=True) -> x_hat).mean()",
        ),
        "x - mean stands where x_hat belongs": "centered * inv_std -> centered",
        "theirs is grad_y itself": ("(grad_y * x_hat) -> (g * x_hat)", "grad_y.sum( -> g.sum("),
        "means over the positions": ("x_hat).sum( -> x_hat).mean(", "grad_y.sum( -> grad_y.mean("),
        "grad_gamma holds gamma itself": "(grad_y * x_hat) -> (g * x_hat)",
    },
    "equal_values": {
        "The gradient is not zero": lambda grad_y, gamma, eps: 0.0 * grad_y,
        "The mean term is missing": lambda grad_y, gamma, eps: gamma * grad_y * eps**-0.5,
        "gamma stands outside the mean": ("g = gamma * -> g = ", "return -> return gamma *"),
    },
    "normalized_axis": {
        "The answer is always the last axis": lambda norm, shape: len(shape) - 1,
        "give each line along the axis a constant of its own": axis_by_one_constant,
        "the first axis that is not normalized": axis_by_sum,
    },
    "rms_norm": {
        "that is layer norm": lambda x, gamma, eps: right.forward(x, gamma, 0.0 * gamma, eps),
        "their standard deviation": lambda x, gamma, eps: gamma * x / (x.std(axis=-1, keepdims=True) ** 2 + eps) ** 0.5,
        "eps stands outside the root": ("np.sqrt( -> (np.sqrt(", " + eps) -> ) + eps)"),
        "A sum stands where the mean": "mean( -> sum(",
        "One mean for the whole array": "axis=-1, keepdims=True -> ",
    },
    "rms_norm_backward": {
        "RMSNorm subtracts no mean": "(g - x_hat -> (g - g.mean(axis=-1, keepdims=True) - x_hat",
        "term through the root mean square is missing": " - x_hat * (g * x_hat).mean(axis=-1, keepdims=True) -> ",
        "gamma stands outside the mean": ("g = gamma * -> g = ", "grad_x = -> grad_x = gamma *"),
        "too small by their number": "x_hat).sum( -> x_hat).mean(",
    },
    "backward_from_output": {
        "y is used for x_hat": "(y - beta) / gamma -> y",
        "beta is not subtracted": "(y - beta) -> y",
        "gamma is not divided out": " / gamma -> ",
    },
}
