"""Planted faults of lesson 7: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_part, with_result

from solutions import lesson_07 as right


def forward_without_relu(x, w1, b1, w2, b2):
    w, b = right.collapsed(w1, b1, w2, b2)
    return x @ w + b


def interpolation_slopes(xs, ys):
    slopes = np.append(np.diff(ys) / np.diff(xs), 0.0)
    return np.ones((1, len(xs))), -xs, slopes[:, None], ys[:1].copy()


def backward_through(gate):
    """The gradient of the hidden layer passes ``gate`` instead of the ReLU's."""

    def wrong(grad_y, x, w1, b1, w2, b2):
        grad_hidden = gate(grad_y @ w2.T)
        grads = right.backward(grad_y, x, w1, b1, w2, b2)
        return grad_hidden @ w1.T, x.T @ grad_hidden, grad_hidden.sum(axis=0), *grads[3:]

    return wrong


def mean_biases(grad_y, x, w1, b1, w2, b2):
    grad_x, grad_w1, grad_b1, grad_w2, grad_b2 = right.backward(grad_y, x, w1, b1, w2, b2)
    return grad_x, grad_w1, grad_b1 / len(x), grad_w2, grad_y.mean(axis=0)


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
    "forward": {
        "The ReLU is missing": forward_without_relu,
        "stands after the second projection": lambda *inputs: np.clip(forward_without_relu(*inputs), 0.0, None),
        "b1 is added after the ReLU": lambda x, w1, b1, w2, b2: (
            right.forward(x, w1, np.zeros_like(b1), w2, b2) + b1 @ w2
        ),
        "x is added": lambda x, *rest: x + right.forward(x, *rest),
    },
    "collapsed": {
        "b1 is lost": lambda w1, b1, w2, b2: right.collapsed(w1, 0.0 * b1, w2, b2),
        "b2 is missing": lambda w1, b1, w2, b2: (np.dot(w1, w2), np.dot(b1, w2)),
        "transposed": lambda w1, b1, w2, b2: ((w1 @ w2).T, b1 @ w2 + b2),
    },
    "interpolation": {
        "The slopes pile up": interpolation_slopes,
        "starts at the wrong height": with_result(right.interpolation, lambda w1, b1, w2, _: (w1, b1, w2, np.zeros(1))),
        "Right of the last point": with_result(
            right.interpolation, lambda w1, b1, w2, b2: (w1, b1, np.append(w2[:-1], [[0.0]], axis=0), b2)
        ),
        "must have the shape (1, 3), got (3,)": with_result(
            right.interpolation, lambda w1, b1, w2, b2: (w1[0], b1, w2[:, 0], b2)
        ),
    },
    "backward": {
        "The ReLU's gate is missing": backward_through(lambda grad_hidden: grad_hidden),
        "the sign of the gradient": backward_through(lambda grad_hidden: np.maximum(0.0, grad_hidden)),
        "before the ReLU": with_part(
            right.backward, 3, lambda grad_y, x, w1, b1, *rest: np.einsum("tj,tm->jm", x @ w1 + b1, grad_y)
        ),
        "too small by their number": mean_biases,
    },
    "gated": {
        "The ReLU is missing": lambda x, w1, w3, w2: np.einsum("ti,ij,tk,kj,jm->tm", x, w1, x, w3, w2),
        "it belongs to x W1": lambda x, w1, w3, w2: right.gated(x, w3, w1, w2),
        "the first factor alone": lambda x, w1, w3, w2: np.clip((x @ w1) * (x @ w3), 0.0, None) @ w2,
        "the gate multiplies": lambda x, w1, w3, w2: (np.maximum(0.0, x @ w1) + x @ w3) @ w2,
    },
    "gated_backward": {
        "The second path to x": with_part(
            right.gated_backward, 0, lambda grad_y, x, w1, w3, w2: (grad_y @ w2.T * (x @ w3) * (x @ w1 > 0)) @ w1.T
        ),
        "The ReLU's gate is missing": gated_without_gate,
        "the slope of the ReLU": gated_by_slope,
    },
}
