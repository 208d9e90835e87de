"""Solutions of lesson 11, training."""

import numpy as np


def dropout(x, keep, p_drop, training):
    return x * keep / (1.0 - p_drop) if training else x


def schedule(step, d_model, warmup):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def adam_step(w, grad, m, v, t, rate, beta1, beta2, eps):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_corrected = m / (1 - beta1**t)
    v_corrected = v / (1 - beta2**t)
    return w - rate * m_corrected / (np.sqrt(v_corrected) + eps), m, v


def accumulated(gradients, n_tokens):
    return n_tokens @ gradients / n_tokens.sum()


def distances(grads, factors, rate, beta1, beta2, eps):
    plain = adam = m = v = 0.0
    for t, grad in enumerate(grads * factors, start=1):
        plain = plain - rate * grad
        adam, m, v = adam_step(adam, grad, m, v, t, rate, beta1, beta2, eps)
    return plain, adam


def token_batches(lengths, budget):
    numbers = np.zeros(len(lengths), dtype=int)
    size = number = 0
    for place in np.argsort(lengths, kind="stable"):
        # In sorted order the newcomer is the longest of its batch.
        if (size + 1) * lengths[place] > budget:
            size, number = 0, number + 1
        size += 1
        numbers[place] = number
    return numbers
