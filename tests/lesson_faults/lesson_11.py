"""Planted faults of lesson 11: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_11 as right


def adam_eps_inside(w, grad, m, v, t, rate, beta1, beta2, eps):
    _, m, v = right.adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)
    return w - rate * m / (1 - beta1**t) * (v / (1 - beta2**t) + eps) ** -0.5, m, v


def adam_upwards(w, grad, m, v, t, *settings):
    after, m, v = right.adam_step(w, grad, m, v, t, *settings)
    return 2 * w - after, m, v


def adam_keeps_corrected(w, grad, m, v, t, rate, beta1, beta2, eps):
    after, m, v = right.adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)
    return after, m / (1 - beta1**t), v / (1 - beta2**t)


def distances_of_signs(grads, factors, rate, *settings):
    return right.distances(grads, factors, rate, *settings)[0], float(-rate * np.sign(grads).sum())


def distances_exchanged(*inputs):
    plain, adam = right.distances(*inputs)
    return adam, plain


def batches_of_real_tokens(lengths, budget):
    numbers, filled, number = np.zeros(len(lengths), dtype=int), 0, 0
    for place in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if filled + lengths[place] > budget:
            filled, number = 0, number + 1
        filled += lengths[place]
        numbers[place] = number
    return numbers


FAULTS = {
    "schedule": [
        (lambda step, d_model, warmup: max(step**-0.5, step / warmup**1.5) / np.sqrt(d_model), "The larger of the two"),
        (lambda step, d_model, warmup: right.schedule(step, 1, warmup), "d_model is missing"),
        (lambda step, d_model, warmup: right.schedule(min(step, warmup), d_model, warmup), "The fall is missing"),
        (lambda step, d_model, warmup: right.schedule(1 + step, d_model, warmup), "taken for 2"),
    ],
    "adam_step": [
        (
            lambda w, grad, m, v, t, *settings: right.adam_step(w, grad, m, v, 10**6, *settings),
            "Both corrections are missing",
        ),
        (adam_eps_inside, "eps stands under the root"),
        (adam_upwards, "subtract the step"),
        (adam_keeps_corrected, "corrected means are returned"),
    ],
    "accumulated": [
        (lambda gradients, n_tokens: np.add.reduce(gradients) / len(gradients), "Each micro-batch counts the same"),
        (lambda gradients, n_tokens: sum(gradients), "The gradients are added"),
        (lambda gradients, n_tokens: n_tokens @ gradients, "not divided by their number"),
    ],
    "distances": [
        (lambda grads, factors, *settings: right.distances(grads, 0 * factors + 1, *settings), "used nowhere"),
        (distances_of_signs, "m and v begin anew"),
        (distances_exchanged, "exchanged"),
    ],
    "token_batches": [
        (batches_of_real_tokens, "Real tokens are counted"),
        (lambda lengths, budget: right.token_batches(lengths, budget - 1), "just the budget is allowed"),
        (lambda lengths, budget: 1 + right.token_batches(lengths, budget), "counted from 0"),
        (lambda lengths, budget: right.token_batches(lengths, 2 * budget), "a rectangle of"),
    ],
}
