"""Planted faults of lesson 8: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_08 as right


def sinusoids_in_halves(n_positions, d_model):
    angles = np.outer(np.arange(n_positions), right.speeds(d_model))
    return np.hstack([np.sin(angles), np.cos(angles)])


def sinusoids_half_exponent(n_positions, d_model):
    table = np.zeros((n_positions, d_model))
    for i in range(d_model // 2):
        angle = np.arange(n_positions) / 10000 ** (i / d_model)
        table[:, 2 * i], table[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return table


def sinusoids_one_speed_each(n_positions, d_model):
    table = np.zeros((n_positions, d_model))
    for j in range(d_model):
        table[:, j] = (np.cos if j % 2 else np.sin)(np.arange(n_positions) / 10000 ** (j / d_model))
    return table


def backward_short(grad_y, ids, n_tokens):
    grad_table = np.zeros((n_tokens, grad_y.shape[1]))
    grad_table[ids] += grad_y * grad_y.shape[1] ** 0.5
    return grad_table


def backward_mean(grad_y, ids, n_tokens):
    rows = [grad_y[ids == i].mean(axis=0) if i in ids else 0.0 * grad_y[0] for i in range(n_tokens)]
    return grad_y.shape[1] ** 0.5 * np.stack(rows)


def shift_by_one_angle(k, d_model):
    turn = np.array([[np.cos(k), -np.sin(k)], [np.sin(k), np.cos(k)]])
    return np.kron(np.eye(d_model // 2), turn)


def shift_in_halves(k, d_model):
    cos, sin = (np.diag(wave(k * right.speeds(d_model))) for wave in (np.cos, np.sin))
    return np.block([[cos, -sin], [sin, cos]])


def rotary_backwards(x, start):
    """The shift matrix stands on the right, where it turns (a, b) the other way."""
    rows = [row @ right.shift(start + t, len(row)) for t, row in enumerate(x)]
    return np.stack(rows)


FAULTS = {
    "embedding": [
        (lambda table, ids: np.take(table, ids, axis=0), "The factor sqrt(d_model) is missing"),
        (lambda table, ids: table[ids] * table[0].size, "by d_model, not by its root"),
        (lambda table, ids: table[ids] * table.shape[0] ** 0.5, "the root of the vocabulary's size"),
    ],
    "sinusoids": [
        (sinusoids_in_halves, "All sines stand first"),
        (lambda n_positions, d_model: right.sinusoids(n_positions + 1, d_model)[1:], "counted from 1"),
        (sinusoids_half_exponent, "The exponent is i / d_model"),
        (sinusoids_one_speed_each, "different speeds"),
    ],
    "embedding_backward": [
        (backward_short, "only the last gradient is kept"),
        (
            lambda grad_y, ids, n_tokens: right.embedding_backward(grad_y, ids, n_tokens) / grad_y.shape[1] ** 0.5,
            "The factor sqrt(d_model) is missing",
        ),
        (backward_mean, "are averaged"),
    ],
    "shift": [
        (lambda k, d_model: right.shift(k, d_model).T, "moves by -k"),
        (shift_by_one_angle, "the same angle k"),
        (shift_in_halves, "sines first, then cosines"),
    ],
    "rotary": [
        (rotary_backwards, "turned backwards"),
        (lambda x, start: right.rotary(x, 0), "start is not used"),
        (lambda x, start: x + right.sinusoids(start + len(x), x.shape[1])[start:], "sinusoids are added"),
        (
            lambda x, start: right.rotary(x, start) * (1.0 + start + np.arange(len(x)))[:, None],
            "must depend on distances alone",
        ),
    ],
}
