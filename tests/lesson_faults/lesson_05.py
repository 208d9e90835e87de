"""Planted faults of lesson 5: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_part, with_result

from solutions import lesson_05 as right


def heads_of(x, w_q, w_k, w_v, n_heads, divisor):
    q, k, v = (right.split(x @ weight, n_heads) for weight in (w_q, w_k, w_v))
    return right.softmax(np.einsum("htd,hsd->hts", q, k) / divisor) @ v


def merged(heads):
    return np.concatenate(list(heads), axis=1)


def multi_head_joined_wrong(x, w_q, w_k, w_v, w_o, n_heads):
    heads = heads_of(x, w_q, w_k, w_v, n_heads, (w_q.shape[1] / n_heads) ** 0.5)
    return heads.ravel().reshape(len(x), -1) @ w_o


def backward_not_swapped(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    rows = [grad.reshape(len(x), -1) for grad in (grad_q, grad_k, grad_v)]
    grad_x = rows[0] @ w_q.T + rows[1] @ w_k.T + rows[2] @ w_v.T
    return grad_x, x.T @ rows[0], x.T @ rows[1], x.T @ rows[2]


FAULTS = {
    "split": {
        "The words are cut, not the columns": lambda packed, n_heads: packed.ravel().reshape(n_heads, len(packed), -1),
        "The swap is missing": lambda packed, n_heads: np.stack(np.split(packed, n_heads, axis=1), axis=1),
        "interleaved": lambda packed, n_heads: np.stack([packed[:, i::n_heads] for i in range(n_heads)]),
        "must have the shape (2, 2, 2), got (2, 1, 2)": with_result(right.split, lambda heads: heads[:, :-1]),
    },
    "multi_head": {
        "d_model where d_k belongs": lambda x, w_q, w_k, w_v, w_o, n_heads: (
            merged(heads_of(x, w_q, w_k, w_v, n_heads, len(w_q) ** 0.5)) @ w_o
        ),
        "h d_k where d_k belongs": lambda x, w_q, w_k, w_v, w_o, n_heads: (
            merged(heads_of(x, w_q, w_k, w_v, n_heads, w_q.shape[1] ** 0.5)) @ w_o
        ),
        "One attention over the full width": with_inputs(right.multi_head, n_heads=lambda n_heads: 1),
        "merged without the swap": multi_head_joined_wrong,
    },
    "contributions": {
        "the first d_v rows of W^O": lambda heads, w_o: np.stack([head @ w_o[: head.shape[1]] for head in heads]),
        "the output without head i": with_result(right.contributions, lambda parts: parts.sum(axis=0) - parts),
        "the same share": with_result(right.contributions, lambda parts: 0.0 * parts + parts.mean(axis=0)),
    },
    "projections_backward": {
        "only the path through the queries": with_part(
            right.projections_backward, 0, lambda grad_q, grad_k, grad_v, x, w_q, *rest: merged(grad_q) @ w_q.T
        ),
        "path through the values is missing": with_part(
            right.projections_backward,
            0,
            lambda grad_q, grad_k, grad_v, x, w_q, w_k, w_v: merged(grad_q) @ w_q.T + merged(grad_k) @ w_k.T,
        ),
        "merged without the swap": backward_not_swapped,
        "too small by their number": lambda grad_q, grad_k, grad_v, x, *weights: (
            right.projections_backward(grad_q, grad_k, grad_v, x, *weights)[0],
            *right.projections_backward(grad_q, grad_k, grad_v, x / len(x), *weights)[1:],
        ),
    },
    "shared_heads": {
        "i % g": lambda q, k, v: right.shared_heads(q, *(np.tile(each, (len(q) // len(k), 1, 1)) for each in (k, v))),
        "read the first head": lambda q, k, v: right.shared_heads(q, k[:1], v[:1]),
        "are averaged": lambda q, k, v: right.shared_heads(q, k.mean(axis=0)[None], v.mean(axis=0)[None]),
    },
}
