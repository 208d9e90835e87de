"""Planted faults of lesson 7: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_07 as right


def forward_without_relu(x, w1, b1, w2, b2):
    w, b = right.collapsed(w1, b1, w2, b2)
    return x @ w + b


def interpolation_slopes(xs, ys):
    slopes = np.append(np.diff(ys) / np.diff(xs), 0.0)
    return np.ones((1, len(xs))), -xs, slopes[:, None], ys[:1].copy()


def interpolation_from_zero(xs, ys):
    w1, b1, w2, _ = right.interpolation(xs, ys)
    return w1, b1, w2, np.zeros(1)


def interpolation_runs_on(xs, ys):
    w1, b1, w2, b2 = right.interpolation(xs, ys)
    return w1, b1, np.where(np.arange(len(xs))[:, None] == len(xs) - 1, 0.0, w2), b2


def interpolation_flat_arrays(xs, ys):
    w1, b1, w2, b2 = right.interpolation(xs, ys)
    return w1[0], b1, w2[:, 0], b2


def backward_ungated(grad_y, x, w1, b1, w2, b2):
    grad_hidden = grad_y @ w2.T
    grads = right.backward(grad_y, x, w1, b1, w2, b2)
    return grad_hidden @ w1.T, x.T @ grad_hidden, grad_hidden.sum(axis=0), *grads[3:]


def backward_relu_of_gradient(grad_y, x, w1, b1, w2, b2):
    grad_hidden = np.maximum(0.0, grad_y @ w2.T)
    grads = right.backward(grad_y, x, w1, b1, w2, b2)
    return grad_hidden @ w1.T, x.T @ grad_hidden, grad_hidden.sum(axis=0), *grads[3:]


def backward_w2_before_relu(grad_y, x, w1, b1, w2, b2):
    grads = right.backward(grad_y, x, w1, b1, w2, b2)
    return *grads[:3], np.einsum("tj,tm->jm", x @ w1 + b1, grad_y), grads[4]


def backward_mean_biases(grad_y, x, w1, b1, w2, b2):
    grad_x, grad_w1, grad_b1, grad_w2, grad_b2 = right.backward(grad_y, x, w1, b1, w2, b2)
    return grad_x, grad_w1, grad_b1 / len(x), grad_w2, grad_y.mean(axis=0)


def gated_one_path(grad_y, x, w1, w3, w2):
    grad_x, grad_w1, grad_w3, grad_w2 = right.gated_backward(grad_y, x, w1, w3, w2)
    return grad_x - (grad_y @ w2.T * np.maximum(x @ w1, 0.0)) @ w3.T, grad_w1, grad_w3, grad_w2


def gated_without_gate(grad_y, x, w1, w3, w2):
    grad_gate = grad_y @ w2.T * (x @ w3)
    grad_value = grad_y @ w2.T * np.maximum(x @ w1, 0.0)
    grads = right.gated_backward(grad_y, x, w1, w3, w2)
    return grad_gate @ w1.T + grad_value @ w3.T, x.T @ grad_gate, *grads[2:]


def gated_by_slope(grad_y, x, w1, w3, w2):
    grad_gate = grad_y @ w2.T * (x @ w3) * (x @ w1 > 0)
    grad_value = np.where(x @ w1 > 0, grad_y @ w2.T, 0.0)
    grads = right.gated_backward(grad_y, x, w1, w3, w2)
    return grad_gate @ w1.T + grad_value @ w3.T, grads[1], x.T @ grad_value, grads[3]


FAULTS = {
    "forward": [
        (forward_without_relu, "The ReLU is missing"),
        (
            lambda x, w1, b1, w2, b2: np.clip(forward_without_relu(x, w1, b1, w2, b2), 0.0, None),
            "stands after the second projection",
        ),
        (
            lambda x, w1, b1, w2, b2: right.forward(x, w1, np.zeros_like(b1), w2, b2) + b1 @ w2,
            "b1 is added after the ReLU",
        ),
        (lambda x, w1, b1, w2, b2: x + right.forward(x, w1, b1, w2, b2), "x is added"),
    ],
    "collapsed": [
        (lambda w1, b1, w2, b2: right.collapsed(w1, 0.0 * b1, w2, b2), "b1 is lost"),
        (lambda w1, b1, w2, b2: (np.dot(w1, w2), np.dot(b1, w2)), "b2 is missing"),
        (lambda w1, b1, w2, b2: ((w1 @ w2).T, b1 @ w2 + b2), "transposed"),
    ],
    "interpolation": [
        (interpolation_slopes, "The slopes pile up"),
        (interpolation_from_zero, "starts at the wrong height"),
        (interpolation_runs_on, "Right of the last point"),
        (interpolation_flat_arrays, "must have the shape (1, 3), got (3,)"),
    ],
    "backward": [
        (backward_ungated, "The ReLU's gate is missing"),
        (backward_relu_of_gradient, "the sign of the gradient"),
        (backward_w2_before_relu, "before the ReLU"),
        (backward_mean_biases, "too small by their number"),
    ],
    "gated_backward": [
        (gated_one_path, "The second path to x"),
        (gated_without_gate, "The ReLU's gate is missing"),
        (gated_by_slope, "the slope of the ReLU"),
    ],
}
