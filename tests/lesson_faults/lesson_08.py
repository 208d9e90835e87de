"""Planted faults of lesson 8: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_result

from solutions import lesson_08 as right


def waves(n_positions, d_model, exponents):
    """Component j is a sine or cosine of position / 10000^(exponents[j] / d_model)."""
    angles = np.outer(np.arange(n_positions), 10000 ** (-np.array(exponents) / d_model))
    return np.where(np.arange(d_model) % 2, np.cos(angles), np.sin(angles))


def backward_short(grad_y, ids, n_tokens):
    grad_table = np.zeros((n_tokens, grad_y.shape[1]))
    grad_table[ids] += grad_y * grad_y.shape[1] ** 0.5
    return grad_table


def backward_mean(grad_y, ids, n_tokens):
    rows = [grad_y[ids == i].mean(axis=0) if i in ids else 0.0 * grad_y[0] for i in range(n_tokens)]
    return grad_y.shape[1] ** 0.5 * np.stack(rows)


def shift_in_halves(k, d_model):
    cos, sin = (np.diag(wave(k * right.speeds(d_model))) for wave in (np.cos, np.sin))
    return np.block([[cos, -sin], [sin, cos]])


FAULTS = {
    "embedding": {
        "The factor sqrt(d_model) is missing": lambda table, ids: np.take(table, ids, axis=0),
        "by d_model, not by its root": lambda table, ids: table[ids] * table[0].size,
        "the root of the vocabulary's size": lambda table, ids: table[ids] * table.shape[0] ** 0.5,
    },
    "sinusoids": {
        "All sines stand first": lambda n, d_model: np.hstack(
            [wave(np.outer(np.arange(n), right.speeds(d_model))) for wave in (np.sin, np.cos)]
        ),
        "counted from 1": lambda n_positions, d_model: right.sinusoids(n_positions + 1, d_model)[1:],
        "The exponent is i / d_model": lambda n, d_model: waves(n, d_model, [j // 2 for j in range(d_model)]),
        "The power is taken of pos / 10000": lambda n, d_model: np.array(
            [
                [(np.cos if j % 2 else np.sin)((pos / 10000) ** (2 * (j // 2) / d_model)) for j in range(d_model)]
                for pos in range(n)
            ]
        ),
        "different speeds": lambda n, d_model: waves(n, d_model, range(d_model)),
    },
    "embedding_backward": {
        "only the last gradient is kept": backward_short,
        "The factor sqrt(d_model) is missing": with_result(
            right.embedding_backward, lambda grad: grad / grad.shape[1] ** 0.5
        ),
        "are averaged": backward_mean,
    },
    "shift": {
        "moves by -k": lambda k, d_model: right.shift(k, d_model).T,
        "the same angle k": lambda k, d_model: np.kron(np.eye(d_model // 2), right.shift(k, 2)),
        "sines first, then cosines": shift_in_halves,
    },
    "rotary": {
        # The shift matrix stands on the right, where it turns (a, b) the other way.
        "turned backwards": lambda x, start: np.stack(
            [row @ right.shift(start + t, len(row)) for t, row in enumerate(x)]
        ),
        "start is not used": lambda x, start: right.rotary(x, 0),
        "sinusoids are added": lambda x, start: x + right.sinusoids(start + len(x), x.shape[1])[start:],
        "must depend on distances alone": lambda x, start: (
            right.rotary(x, start) * (1.0 + start + np.arange(len(x)))[:, None]
        ),
    },
    "rotary_backward": {
        "The gradient is turned forwards": lambda grad_y, start: right.rotary(grad_y, start),
        "start is not used": lambda grad_y, start: right.rotary_backward(grad_y, 0),
        "left exchanged": lambda grad_y, start: right.rotary_backward(grad_y, start)[:, np.arange(grad_y.shape[1]) ^ 1],
        "here it turns by t - start": lambda grad_y, start: right.rotary(grad_y, -start),
    },
}
