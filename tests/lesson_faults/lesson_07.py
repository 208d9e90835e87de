"""Planted faults of lesson 7: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_07 as right

FAULTS = {
    "forward": {
        "The ReLU is missing": "np.maximum(x @ w1 + b1, 0.0) -> (x @ w1 + b1)",
        "stands after the second projection": (
            "np.maximum(x @ w1 + b1, 0.0) -> np.maximum((x @ w1 + b1)",
            " + b2 ->  + b2, 0.0)",
        ),
        "b1 is added after the ReLU": "np.maximum(x @ w1 + b1, 0.0) -> (np.maximum(x @ w1, 0.0) + b1)",
        "x is added": lambda x, *rest: x + right.forward(x, *rest),
    },
    "collapsed": {
        "b1 is lost": lambda w1, b1, w2, b2: right.collapsed(w1, 0.0 * b1, w2, b2),
        "b2 is missing": lambda w1, b1, w2, b2: (np.dot(w1, w2), np.dot(b1, w2)),
        "transposed": lambda w1, b1, w2, b2: ((w1 @ w2).T, b1 @ w2 + b2),
    },
    "interpolation": {
        "The slopes pile up": "np.diff(slopes, prepend=0.0, append=0.0) -> np.append(slopes, 0.0)",
        "starts at the wrong height": "ys[:1].copy() -> np.zeros(1)",
        "Right of the last point": "append=0.0 -> append=slopes[-1]",
        "must have the shape (1, 3), got (3,)": "np.ones((1, len(xs))) -> np.ones(len(xs))",
    },
    "backward": {
        "The ReLU's gate is missing": " * (hidden > 0) -> ",
        "the sign of the gradient": "(grad_y @ w2.T) * (hidden > 0) -> np.maximum(grad_y @ w2.T, 0.0)",
        "before the ReLU": "np.maximum(hidden, 0.0) -> hidden",
        "too small by their number": ("grad_hidden.sum( -> grad_hidden.mean(", "grad_y.sum( -> grad_y.mean("),
    },
    "gated": {
        "The ReLU is missing": lambda x, w1, w3, w2: np.einsum("ti,ij,tk,kj,jm->tm", x, w1, x, w3, w2),
        "it belongs to x W1": lambda x, w1, w3, w2: right.gated(x, w3, w1, w2),
        "the first factor alone": lambda x, w1, w3, w2: np.clip((x @ w1) * (x @ w3), 0.0, None) @ w2,
        "the gate multiplies": lambda x, w1, w3, w2: (np.maximum(0.0, x @ w1) + x @ w3) @ w2,
    },
    "gated_backward": {
        "The second path to x": " + grad_value @ w3.T -> ",
        "The ReLU's gate is missing": " * (gate > 0) -> ",
        "the slope of the ReLU": "* open_gate -> * (gate > 0)",
    },
}
