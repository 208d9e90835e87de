"""Planted faults of lesson 2: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_02 as right


def nearest_first(uses, last):
    order = [last]
    for op in order:
        order += [each for each in uses[op] if each not in order]
    return order


def every_path(uses, last):
    return [last, *(op for each in uses[last] for op in every_path(uses, each))]


FAULTS = {
    "two_paths": {
        "the product's part alone": lambda grad_y, a, b: (b * grad_y, a * grad_y),
        "exchanged": lambda grad_y, a, b: right.two_paths(grad_y, a, b)[::-1],
        "grad_y is not used": lambda grad_y, a, b: right.two_paths(np.ones_like(grad_y), a, b),
        "paths add": lambda grad_y, a, b: (np.exp(a) * b * grad_y, a * grad_y),
    },
    "sigmoid_backward": {
        "grad_y is not used": lambda grad_y, saved: (saved[0] - saved[0] ** 2,),
        "no further sigmoid": lambda grad_y, saved: right.sigmoid_backward(grad_y, (1 / (1 + np.exp(-saved[0])),)),
        "returns a tuple": lambda grad_y, saved: grad_y * (saved[0] - saved[0] ** 2),
        "belongs to tanh": lambda grad_y, saved: (grad_y * (1 - saved[0]) * (1 + saved[0]),),
    },
    "order": {
        "which still owes it a gradient": nearest_first,
        "order of the forward pass": lambda uses, last: right.order(uses, last)[::-1],
        "is walked twice": every_path,
        "the result does not use it": lambda uses, last: (
            right.order(uses, last) + sorted(set(range(len(uses))) - set(right.order(uses, last)))
        ),
        "is missing": lambda uses, last: [last, *uses[last]],
    },
    "gradients": {
        "The tape is walked forwards": "reversed(tape) -> tape",
        "replaces the ones before it": "found[value] + grad -> grad",
        "with respect to itself is 1": "= 1.0 -> = 0.0",
        "only one of them arrives": ("in zip(inputs -> in dict(zip(inputs", "strict=True) -> strict=True)).items()"),
        "must be a list of 5": "return found -> return [grad for grad in found if np.any(grad)]",
    },
}
