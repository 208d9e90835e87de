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


def shared_by_the_first(grad_y, q, k, v):
    first = slice(None, None, len(q) // len(k))
    grad_q, _, _ = right.shared_heads_backward(grad_y, q, k, v)
    return grad_q, *right.shared_heads_backward(grad_y[first], q[first], k, v)[1:]


def shared_in_turn(grad_y, q, k, v):
    order = np.argsort(np.arange(len(q)) % len(k), kind="stable")
    grad_q, grad_k, grad_v = right.shared_heads_backward(grad_y[order], q[order], k, v)
    return grad_q[np.argsort(order)], grad_k, grad_v


FAULTS = {
    "split": {
        "The words are cut, not the columns": lambda packed, n_heads: packed.ravel().reshape(n_heads, len(packed), -1),
        "The swap is missing": lambda packed, n_heads: np.stack(np.split(packed, n_heads, axis=1), axis=1),
        "interleaved": lambda packed, n_heads: np.stack([packed[:, i::n_heads] for i in range(n_heads)]),
        "must have the shape (2, 2, 2), got (2, 1, 2)": with_result(right.split, lambda heads: heads[:, :-1]),
    },
    "merge": {
        "The swap is missing": lambda heads: heads.ravel().reshape(heads.shape[1], -1),
        "interleaved": lambda heads: np.stack(list(heads), axis=-1).reshape(heads.shape[1], -1),
        "in reverse order": lambda heads: merged(heads[::-1]),
        "a row for each word of each": lambda heads: np.concatenate(list(heads), axis=0),
    },
    "multi_head": {
        "divided by d_k, not by its root": lambda x, w_q, w_k, w_v, w_o, n_heads: (
            merged(heads_of(x, w_q, w_k, w_v, n_heads, w_q.shape[1] / n_heads)) @ w_o
        ),
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
    "shared_heads_backward": {
        "The gradients of a group are averaged": lambda grad_y, q, k, v: tuple(
            grad * len(grad) / len(q) for grad in right.shared_heads_backward(grad_y, q, k, v)
        ),
        "Only the first query head": shared_by_the_first,
        "not to group i % g": shared_in_turn,
        "The scale 1 / sqrt(d_k) is missing": with_result(
            right.shared_heads_backward, lambda grad_q, grad_k, grad_v: (2.0 * grad_q, 2.0 * grad_k, grad_v)
        ),
    },
}
