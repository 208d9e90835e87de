"""Solutions of lesson 4, scaled dot-product attention."""

import math

import numpy as np


def weights(q, k, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., T, S)
    scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - np.where(largest == -np.inf, 0.0, largest))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total == 0.0, 1.0, total)  # a row that may attend to nothing: zeros


def self_attention(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v  # (T, d_k), (T, d_k), (T, d_v)
    return weights(q, k, np.ones((len(x), len(x)), dtype=bool)) @ v


def decoder_mask(lengths, max_length):
    position = np.arange(max_length)
    causal = position[None, :] <= position[:, None]  # (T, T)
    real = position[None, :] < lengths[:, None]  # (B, T)
    return causal[None, :, :] & real[:, None, :]  # (B, T, T)


def backward(grad_y, q, k, v, weights):
    grad_v = weights.swapaxes(-1, -2) @ grad_y
    grad_weights = grad_y @ v.swapaxes(-1, -2)
    mean = (grad_weights * weights).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean) / math.sqrt(q.shape[-1])
    return grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q, grad_v


def streaming(q, k, v, size):
    largest = np.full((len(q), 1), -np.inf)
    total = np.zeros((len(q), 1))
    y = np.zeros((len(q), v.shape[-1]))
    for start in range(0, len(k), size):
        scores = q @ k[start : start + size].T / math.sqrt(q.shape[-1])  # (T, size)
        grown = np.maximum(largest, scores.max(axis=-1, keepdims=True))
        exponentials = np.exp(scores - grown)
        shrink = np.exp(largest - grown)
        total = total * shrink + exponentials.sum(axis=-1, keepdims=True)
        y = y * shrink + exponentials @ v[start : start + size]
        largest = grown
    return y / total
