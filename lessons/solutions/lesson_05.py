"""Solutions of lesson 5, many heads."""

import math

import numpy as np


def split(packed, n_heads):
    length, width = packed.shape
    return packed.reshape(length, n_heads, width // n_heads).swapaxes(0, 1)  # (h, T, d)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (split(x @ weight, n_heads) for weight in (w_q, w_k, w_v))  # (h, T, d_k), (h, T, d_k), (h, T, d_v)
    weights = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))  # (h, T, T)
    heads = weights @ v  # (h, T, d_v)
    return heads.swapaxes(0, 1).reshape(len(x), -1) @ w_o


def contributions(heads, w_o):
    n_heads, _, d_v = heads.shape
    return heads @ w_o.reshape(n_heads, d_v, -1)  # (h, T, d_v) @ (h, d_v, d_model)


def projections_backward(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    merged = [grad.swapaxes(0, 1).reshape(len(x), -1) for grad in (grad_q, grad_k, grad_v)]  # (T, h d) each
    grad_x = sum(grad @ weight.T for grad, weight in zip(merged, (w_q, w_k, w_v), strict=True))
    return grad_x, *(x.T @ grad for grad in merged)


def shared_heads(q, k, v):
    n_heads, length, d_k = q.shape
    groups = q.reshape(len(k), n_heads // len(k), length, d_k)  # (g, h / g, T, d_k)
    weights = softmax(groups @ k[:, None].swapaxes(-1, -2) / math.sqrt(d_k))  # (g, h / g, T, S)
    return (weights @ v[:, None]).reshape(n_heads, length, -1)
