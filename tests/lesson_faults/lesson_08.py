"""Planted faults of lesson 8: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_08 as right


def backward_short(grad_y, ids, n_tokens):
    grad_table = np.zeros((n_tokens, grad_y.shape[1]))
    grad_table[ids] += grad_y * grad_y.shape[1] ** 0.5
    return grad_table


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
        "whole numbers, which truncate": "reshape(n_positions, d_model) -> reshape(n_positions, d_model).astype(int)",
        "All sines stand first": "axis=-1 -> axis=1",
        "counted from 1": lambda n_positions, d_model: right.sinusoids(n_positions + 1, d_model)[1:],
        "The exponent is i / d_model": "speeds(d_model) -> speeds(2 * d_model)[: d_model // 2]",
        "The power is taken of pos / 10000": (
            "[:, None] * speeds(d_model) -> [:, None] / 1e4",
            "return -> angles = angles ** (np.arange(0, d_model, 2) / d_model)\n    return",
        ),
    },
    "embedding_backward": {
        "only the last gradient is kept": backward_short,
        "root of the vocabulary's size": "math.sqrt(grad_y.shape[1]) -> math.sqrt(n_tokens)",
        "The factor sqrt(d_model) is missing": "math.sqrt(grad_y.shape[1]) * -> ",
        "are averaged": "one_hot.T -> (one_hot / np.maximum(one_hot.sum(axis=0), 1)).T",
    },
    "shift": {
        "10000^(-4i / d_model)": "speeds(d_model) -> speeds(d_model) ** 2",
        "moves by -k": lambda k, d_model: right.shift(k, d_model).T,
        "the same angle k": lambda k, d_model: np.kron(np.eye(d_model // 2), right.shift(k, 2)),
        "sines first, then cosines": shift_in_halves,
    },
    "rotary": {
        "turned backwards": ("- b * np.sin -> + b * np.sin", "a * np.sin( -> -a * np.sin("),
        "start is not used": lambda x, start: right.rotary(x, 0),
        "sinusoids are added": lambda x, start: x + right.sinusoids(start + len(x), x.shape[1])[start:],
        "must depend on distances alone": "np.stack( -> (1.0 + start + np.arange(length))[:, None] * np.stack(",
    },
    "rotary_backward": {
        "All columns are reversed": lambda grad_y, start: np.fliplr(right.rotary(np.fliplr(grad_y), start)),
        "The gradient is turned forwards": lambda grad_y, start: right.rotary(grad_y, start),
        "start is not used": lambda grad_y, start: right.rotary_backward(grad_y, 0),
        "left exchanged": lambda grad_y, start: right.rotary_backward(grad_y, start)[:, np.arange(grad_y.shape[1]) ^ 1],
        "here it turns by t - start": lambda grad_y, start: right.rotary(grad_y, -start),
    },
}
