"""Solutions of lesson 8, embeddings and positions."""

import math

import numpy as np


def embedding(table, ids):
    return math.sqrt(table.shape[1]) * table[ids]


def speeds(d_model):
    return 10000.0 ** (-np.arange(0, d_model, 2) / d_model)  # (d_model / 2,)


def sinusoids(n_positions, d_model):
    angles = np.arange(n_positions)[:, None] * speeds(d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n_positions, d_model)


def embedding_backward(grad_y, ids, n_tokens):
    one_hot = (ids[:, None] == np.arange(n_tokens)).astype(float)  # (T, V): one_hot @ table is table[ids]
    return math.sqrt(grad_y.shape[1]) * one_hot.T @ grad_y


def shift(k, d_model):
    matrix = np.zeros((d_model, d_model))
    for i, angle in enumerate(k * speeds(d_model)):
        turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]  # (sin, cos) @ turn
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = turn
    return matrix


def rotary(x, start):
    length, d = x.shape
    angles = (start + np.arange(length))[:, None] * speeds(d)  # (T, d / 2)
    a, b = x[:, 0::2], x[:, 1::2]
    turned = [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)]
    return np.stack(turned, axis=-1).reshape(length, d)


def rotary_backward(grad_y, start):
    exchanged = grad_y.reshape(len(grad_y), -1, 2)[:, :, ::-1].reshape(grad_y.shape)  # (a, b) to (b, a)
    return rotary(exchanged, start).reshape(len(grad_y), -1, 2)[:, :, ::-1].reshape(grad_y.shape)
