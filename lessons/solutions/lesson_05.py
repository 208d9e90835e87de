"""Solutions of lesson 5, many heads."""

import math

import numpy as np


def split(packed, n_heads):
    length, width = packed.shape
    return packed.reshape(length, n_heads, width // n_heads).swapaxes(0, 1)  # (h, T, d)


def merge(heads):
    return heads.swapaxes(0, 1).reshape(heads.shape[1], -1)  # (T, h d)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (split(x @ weight, n_heads) for weight in (w_q, w_k, w_v))  # (h, T, d_k), (h, T, d_k), (h, T, d_v)
    weights = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))  # (h, T, T)
    return merge(weights @ v) @ w_o


def contributions(heads, w_o):
    n_heads, _, d_v = heads.shape
    return heads @ w_o.reshape(n_heads, d_v, -1)  # (h, T, d_v) @ (h, d_v, d_model)


def projections_backward(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    merged = [merge(grad) for grad in (grad_q, grad_k, grad_v)]  # (T, h d) each
    grad_x = sum(grad @ weight.T for grad, weight in zip(merged, (w_q, w_k, w_v), strict=True))
    return grad_x, *(x.T @ grad for grad in merged)


def shared_heads(q, k, v):
    n_heads, length, d_k = q.shape
    groups = q.reshape(len(k), n_heads // len(k), length, d_k)  # (g, h / g, T, d_k)
    weights = softmax(groups @ k[:, None].swapaxes(-1, -2) / math.sqrt(d_k))  # (g, h / g, T, S)
    return (weights @ v[:, None]).reshape(n_heads, length, -1)


def shared_heads_backward(grad_y, q, k, v):
    n_heads, length, d_k = q.shape
    groups = q.reshape(len(k), n_heads // len(k), length, d_k)  # (g, h / g, T, d_k)
    grads = grad_y.reshape(*groups.shape[:3], -1)  # (g, h / g, T, d_v)
    weights = softmax(groups @ k[:, None].swapaxes(-1, -2) / math.sqrt(d_k))
    grad_weights = grads @ v[:, None].swapaxes(-1, -2)  # (g, h / g, T, S)
    grad_scores = weights * (grad_weights - (weights * grad_weights).sum(axis=-1, keepdims=True)) / math.sqrt(d_k)
    grad_k = (grad_scores.swapaxes(-1, -2) @ groups).sum(axis=1)  # the heads of a group shared the key
    grad_v = (weights.swapaxes(-1, -2) @ grads).sum(axis=1)
    return (grad_scores @ k[:, None]).reshape(q.shape), grad_k, grad_v
