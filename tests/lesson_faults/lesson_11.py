"""Planted faults of lesson 11: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_part, with_result

from solutions import lesson_11 as right


def adam_eps_inside(w, grad, m, v, t, rate, beta1, beta2, eps):
    _, m, v = right.adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)
    return w - rate * m / (1 - beta1**t) * (v / (1 - beta2**t) + eps) ** -0.5, m, v


def adam_keeps_corrected(w, grad, m, v, t, rate, beta1, beta2, eps):
    after, m, v = right.adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)
    return after, m / (1 - beta1**t), v / (1 - beta2**t)


def batches_of_real_tokens(lengths, budget):
    numbers, filled, number = np.zeros(len(lengths), dtype=int), 0, 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if filled + lengths[i] > budget:
            filled, number = 0, number + 1
        filled += lengths[i]
        numbers[i] = number
    return numbers


FAULTS = {
    "dropout": {
        "active at inference": lambda x, keep, p_drop, training: np.where(keep, x / (1 - p_drop), 0.0),
        "not scaled up": lambda x, keep, p_drop, training: np.where(keep, x, 0.0) if training else x,
        "there twice": lambda x, keep, p_drop, training: (
            right.dropout(x, keep, p_drop, training) * (1.0 if training else 1 - p_drop)
        ),
        "divides by p_drop": lambda x, keep, p_drop, training: right.dropout(
            x, keep, 1.0 - p_drop if training else p_drop, training
        ),
    },
    "schedule": {
        "The larger of the two": lambda step, d_model, warmup: max(step**-0.5, step / warmup**1.5) / np.sqrt(d_model),
        "d_model is missing": with_inputs(right.schedule, d_model=lambda d_model: 1),
        "The fall is missing": lambda step, d_model, warmup: right.schedule(min(step, warmup), d_model, warmup),
        "taken for 2": with_inputs(right.schedule, step=lambda step: 1 + step),
    },
    "adam_step": {
        "Both corrections are missing": with_inputs(right.adam_step, t=lambda t: 10**6),
        "eps stands under the root": adam_eps_inside,
        "subtract the step": with_part(right.adam_step, 0, lambda w, *rest: 2 * w - right.adam_step(w, *rest)[0]),
        "corrected means are returned": adam_keeps_corrected,
    },
    "accumulated": {
        "Each micro-batch counts the same": lambda gradients, n_tokens: np.add.reduce(gradients) / len(gradients),
        "The gradients are added": lambda gradients, n_tokens: sum(gradients),
        "not divided by their number": lambda gradients, n_tokens: n_tokens @ gradients,
    },
    "distances": {
        "used nowhere": with_inputs(right.distances, factors=np.ones_like),
        "m and v begin anew": with_part(
            right.distances, 1, lambda grads, factors, rate, *settings: float(-rate * np.sign(grads).sum())
        ),
        "exchanged": with_result(right.distances, lambda plain, adam: (adam, plain)),
    },
    "token_batches": {
        "Real tokens are counted": batches_of_real_tokens,
        "just the budget is allowed": with_inputs(right.token_batches, budget=lambda budget: budget - 1),
        "counted from 0": with_result(right.token_batches, lambda numbers: 1 + numbers),
        "a rectangle of": with_inputs(right.token_batches, budget=lambda budget: 2 * budget),
    },
}
