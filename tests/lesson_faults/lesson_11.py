"""Planted faults of lesson 11: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_11 as right


def schedule_of_the_larger(step, d_model, warmup):
    return max(step**-0.5, step / warmup**1.5) / np.sqrt(d_model)


def schedule_without_width(step, d_model, warmup):
    return right.schedule(step, 1, warmup)


def schedule_without_fall(step, d_model, warmup):
    return right.schedule(min(step, warmup), d_model, warmup)


def schedule_late(step, d_model, warmup):
    return right.schedule(1 + step, d_model, warmup)


def adam_uncorrected(w, grad, m, v, t, *settings):
    return right.adam_step(w, grad, m, v, 10**6, *settings)


def adam_eps_inside(w, grad, m, v, t, rate, beta1, beta2, eps):
    _, m, v = right.adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)
    return w - rate * m / (1 - beta1**t) * (v / (1 - beta2**t) + eps) ** -0.5, m, v


def adam_upwards(w, grad, m, v, t, *settings):
    after, m, v = right.adam_step(w, grad, m, v, t, *settings)
    return 2 * w - after, m, v


def adam_keeps_corrected(w, grad, m, v, t, rate, beta1, beta2, eps):
    after, m, v = right.adam_step(w, grad, m, v, t, rate, beta1, beta2, eps)
    return after, m / (1 - beta1**t), v / (1 - beta2**t)


def accumulated_equally(gradients, n_tokens):
    return np.add.reduce(gradients) / len(gradients)


def accumulated_sum(gradients, n_tokens):
    return sum(gradients)


def accumulated_undivided(gradients, n_tokens):
    return n_tokens @ gradients


def distances_without_factors(grads, factors, *settings):
    return right.distances(grads, 0 * factors + 1, *settings)


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


def batches_below_budget(lengths, budget):
    return right.token_batches(lengths, budget - 1)


def batches_from_one(lengths, budget):
    return 1 + right.token_batches(lengths, budget)


def batches_too_large(lengths, budget):
    return right.token_batches(lengths, 2 * budget)


FAULTS = {
    "schedule": [
        (schedule_of_the_larger, "The larger of the two"),
        (schedule_without_width, "d_model is missing"),
        (schedule_without_fall, "The fall is missing"),
        (schedule_late, "taken for 2"),
    ],
    "adam_step": [
        (adam_uncorrected, "Both corrections are missing"),
        (adam_eps_inside, "eps stands under the root"),
        (adam_upwards, "subtract the step"),
        (adam_keeps_corrected, "corrected means are returned"),
    ],
    "accumulated": [
        (accumulated_equally, "Each micro-batch counts the same"),
        (accumulated_sum, "The gradients are added"),
        (accumulated_undivided, "not divided by their number"),
    ],
    "distances": [
        (distances_without_factors, "used nowhere"),
        (distances_of_signs, "m and v begin anew"),
        (distances_exchanged, "exchanged"),
    ],
    "token_batches": [
        (batches_of_real_tokens, "Real tokens are counted"),
        (batches_below_budget, "just the budget is allowed"),
        (batches_from_one, "counted from 0"),
        (batches_too_large, "a rectangle of"),
    ],
}
