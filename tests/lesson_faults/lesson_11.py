"""Planted faults of lesson 11: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_11 as right

FAULTS = {
    "dropout": {
        "active at inference": lambda x, keep, p_drop, training: np.where(keep, x / (1 - p_drop), 0.0),
        "not scaled up": lambda x, keep, p_drop, training: np.where(keep, x, 0.0) if training else x,
        "there twice": "else x -> else x * (1 - p_drop)",
        "divides by p_drop": "(1.0 - p_drop) -> p_drop",
    },
    "schedule": {
        "The larger of the two": lambda step, d_model, warmup: max(step**-0.5, step / warmup**1.5) / np.sqrt(d_model),
        "d_model is missing": with_inputs(right.schedule, d_model=lambda d_model: 1),
        "The fall is missing": lambda step, d_model, warmup: right.schedule(min(step, warmup), d_model, warmup),
        "taken for 2": with_inputs(right.schedule, step=lambda step: 1 + step),
    },
    "adam_step": {
        "Both corrections are missing": with_inputs(right.adam_step, t=lambda t: 10**6),
        "eps stands under the root": "np.sqrt(v_corrected) + eps -> np.sqrt(v_corrected + eps)",
        "before the correction": "np.sqrt(v_corrected) + eps -> np.sqrt(v_corrected) + eps * np.sqrt(v_corrected / v)",
        "subtract the step": "w - rate -> w + rate",
        "corrected means are returned": "m, v\n -> m_corrected, v_corrected\n",
    },
    "accumulated": {
        "Each micro-batch counts the same": lambda gradients, n_tokens: np.add.reduce(gradients) / len(gradients),
        "The gradients are added": lambda gradients, n_tokens: sum(gradients),
        "not divided by their number": lambda gradients, n_tokens: n_tokens @ gradients,
    },
    "distances": {
        "used nowhere": with_inputs(right.distances, factors=np.ones_like),
        "m and v start from 0": "m, v, t -> 0.0, 0.0, 1",
        "exchanged": with_result(right.distances, lambda plain, adam: (adam, plain)),
    },
    "token_batches": {
        "Real tokens are counted": ("(size + 1) * lengths -> size + lengths", "size += 1 -> size += lengths[place]"),
        "order of the sorted": with_inputs(right.token_batches, lengths=np.sort),
        "just the budget is allowed": with_inputs(right.token_batches, budget=lambda budget: budget - 1),
        "counted from 0": with_result(right.token_batches, lambda numbers: 1 + numbers),
        "a rectangle of": with_inputs(right.token_batches, budget=lambda budget: 2 * budget),
    },
}
