"""Planted faults of lesson 15: for each exercise, words that the message must hold and the wrong function."""

import math

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_15 as right


def z_first(weights):
    r, z, n = np.split(weights, 3, axis=-1)
    return np.concatenate([z, r, n], axis=-1)


FAULTS = {
    "band": {
        "on each side": "r // 2 -> r",
        "must see itself": with_result(right.band, lambda mask: mask & ~np.eye(len(mask), dtype=bool)),
        "where nothing may be seen": with_result(right.band, np.logical_not),
        "Only the past is seen": with_result(right.band, np.tril),
        "One neighbor is missing": "<= r // 2 -> < r // 2",
    },
    "layers_needed": {
        "log_k n is the order of growth": lambda n, k, dilated: (
            math.ceil(math.log(n) / math.log(k)) if dilated else right.layers_needed(n, k, dilated)
        ),
        "One position too far": "n - 1: -> n:",
        "Expected 3, got 4": lambda n, k, dilated: right.layers_needed(n + dilated, k, dilated),
        "both sides together": "(k - 1) // 2 -> (k - 1)",
        "The dilation of the first layer is 1": "k**layers -> k ** (layers + 1)",
        "not by 2": "k**layers -> 2**layers",
        "The dilation is left out": "k**layers if dilated else 1 -> 1",
    },
    "step": {
        "Here n and h are exchanged": "(1.0 - z) * n + z * h -> (1.0 - z) * h + z * n",
        "Here z and r are exchanged": with_inputs(right.step, w_x=z_first, w_h=z_first, b_x=z_first, b_h=z_first),
        "The bias b_h is missing": with_inputs(right.step, b_h=np.zeros_like),
        "This is the candidate alone": "return (1.0 - z) * n + z * h -> return n",
    },
    "step_backward": {
        "The direct path to h is missing": "grad_y * z + grad_recurrent @ w_h.T -> grad_recurrent @ w_h.T",
        "Only the direct path": "grad_y * z + grad_recurrent @ w_h.T -> grad_y * z",
        "The slope 1 - n^2": " * (1.0 - n * n) -> ",
        "The gradient of z has the wrong sign": "(h - n) -> (n - h)",
        "its gradient is grad_n r": "grad_n * r] -> grad_n]",
        "The slope r (1 - r)": " * r * (1.0 - r) -> ",
    },
    "through_time": {
        "What later steps send back is missing": "grad_y[t] + grad_h -> grad_y[t]",
        "every step used the same weights": "[grad + part for grad, part in zip(grads, parts, strict=True)] -> parts",
        "the state before the step": "states[t], w_x -> states[t + 1], w_x",
        "Time runs forwards": "reversed(range(len(x))) -> range(len(x))",
    },
    "additive_backward": {
        "The slope 1 - tanh^2": " * (1.0 - hidden * hidden) -> ",
        "subtract the weighted mean": " - (weights * grad_weights).sum(axis=-1, keepdims=True) -> ",
        "The factor w is missing": "grad_scores[..., None] * w -> grad_scores[..., None]",
        "by their tanh": "np.tensordot(grad_scores, hidden, 2) -> np.tensordot(grad_scores, q[:, None] + k, 2)",
    },
}
