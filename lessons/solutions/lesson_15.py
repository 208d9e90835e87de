"""Solutions of lesson 15, why self-attention."""

import numpy as np


def band(n, r):
    positions = np.arange(n)
    return np.abs(positions[:, None] - positions) <= r // 2


def layers_needed(n, k, dilated):
    layers = reach = 0
    while reach < n - 1:
        reach += (k - 1) // 2 * (k**layers if dilated else 1)
        layers += 1
    return layers


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def gates(x, h, w_x, w_h, b_x, b_h):
    d, projected, recurrent = len(h), x @ w_x + b_x, h @ w_h + b_h  # (3 d,): reset gate, update gate, candidate
    r, z = sigmoid(projected[:d] + recurrent[:d]), sigmoid(projected[d : 2 * d] + recurrent[d : 2 * d])
    recurrent_n = recurrent[2 * d :]
    return r, z, np.tanh(projected[2 * d :] + r * recurrent_n), recurrent_n


def step(x, h, w_x, w_h, b_x, b_h):
    _, z, n, _ = gates(x, h, w_x, w_h, b_x, b_h)
    return (1.0 - z) * n + z * h


def step_backward(grad_y, x, h, w_x, w_h, b_x, b_h):
    r, z, n, recurrent_n = gates(x, h, w_x, w_h, b_x, b_h)
    grad_n = grad_y * (1.0 - z) * (1.0 - n * n)
    grad_z = grad_y * (h - n) * z * (1.0 - z)
    grad_r = grad_n * recurrent_n * r * (1.0 - r)
    grad_projected = np.concatenate([grad_r, grad_z, grad_n])
    grad_recurrent = np.concatenate([grad_r, grad_z, grad_n * r])
    grad_h = grad_y * z + grad_recurrent @ w_h.T
    grad_weights = np.outer(x, grad_projected), np.outer(h, grad_recurrent)
    return grad_projected @ w_x.T, grad_h, *grad_weights, grad_projected, grad_recurrent


def through_time(grad_y, x, h, w_x, w_h, b_x, b_h):
    states = [h]
    for x_t in x:
        states.append(step(x_t, states[-1], w_x, w_h, b_x, b_h))
    grad_x, grad_h, grads = np.zeros_like(x), np.zeros_like(h), [np.zeros_like(each) for each in (w_x, w_h, b_x, b_h)]
    for t in reversed(range(len(x))):
        grad_state = grad_y[t] + grad_h  # from the output, and from all later steps
        grad_x[t], grad_h, *parts = step_backward(grad_state, x[t], states[t], w_x, w_h, b_x, b_h)
        grads = [grad + part for grad, part in zip(grads, parts, strict=True)]
    return grad_x, grad_h, *grads


def additive_backward(grad_y, q, k, v, w):
    hidden = np.tanh(q[:, None] + k)  # (T, S, d_k)
    exponentials = np.exp(hidden @ w)
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)  # (T, S)
    grad_weights = grad_y @ v.T
    grad_scores = weights * (grad_weights - (weights * grad_weights).sum(axis=-1, keepdims=True))
    grad_sum = grad_scores[..., None] * w * (1.0 - hidden * hidden)  # of q_t + k_s, (T, S, d_k)
    return grad_sum.sum(axis=1), grad_sum.sum(axis=0), weights.T @ grad_y, np.tensordot(grad_scores, hidden, 2)
