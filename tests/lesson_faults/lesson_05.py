"""Planted faults of lesson 5: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_05 as right


def heads_of(x, w_q, w_k, w_v, n_heads, divisor):
    q, k, v = (right.split(x @ weight, n_heads) for weight in (w_q, w_k, w_v))
    return right.softmax(np.einsum("htd,hsd->hts", q, k) / divisor) @ v


def multi_head_over_d_model(x, w_q, w_k, w_v, w_o, n_heads):
    heads = heads_of(x, w_q, w_k, w_v, n_heads, len(w_q) ** 0.5)
    return np.concatenate(list(heads), axis=1) @ w_o


def multi_head_over_all_keys(x, w_q, w_k, w_v, w_o, n_heads):
    heads = heads_of(x, w_q, w_k, w_v, n_heads, w_q.shape[1] ** 0.5)
    return np.concatenate(list(heads), axis=1) @ w_o


def multi_head_joined_wrong(x, w_q, w_k, w_v, w_o, n_heads):
    heads = heads_of(x, w_q, w_k, w_v, n_heads, (w_q.shape[1] / n_heads) ** 0.5)
    return heads.ravel().reshape(len(x), -1) @ w_o


def contributions_of_others(heads, w_o):
    parts = right.contributions(heads, w_o)
    return np.stack([np.delete(parts, i, axis=0).sum(axis=0) for i in range(len(parts))])


def contributions_in_equal_shares(heads, w_o):
    return np.repeat(right.contributions(heads, w_o).mean(axis=0, keepdims=True), len(heads), axis=0)


def backward_queries_only(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    grads = right.projections_backward(grad_q, grad_k, grad_v, x, w_q, w_k, w_v)
    return np.concatenate(list(grad_q), axis=1) @ w_q.T, *grads[1:]


def backward_without_values(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    grads = right.projections_backward(grad_q, grad_k, grad_v, x, w_q, w_k, w_v)
    return grads[0] - np.concatenate(list(grad_v), axis=1) @ w_v.T, *grads[1:]


def backward_not_swapped(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    rows = [grad.reshape(len(x), -1) for grad in (grad_q, grad_k, grad_v)]
    grad_x = rows[0] @ w_q.T + rows[1] @ w_k.T + rows[2] @ w_v.T
    return grad_x, x.T @ rows[0], x.T @ rows[1], x.T @ rows[2]


def backward_mean(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    grad_x, *others = right.projections_backward(grad_q, grad_k, grad_v, x, w_q, w_k, w_v)
    return grad_x, *(grad / x.shape[0] for grad in others)


def shared_in_turn(q, k, v):
    times = (len(q) // len(k), 1, 1)
    return right.shared_heads(q, np.tile(k, times), np.tile(v, times))


FAULTS = {
    "split": [
        (
            lambda packed, n_heads: np.array(np.split(packed.ravel(), n_heads)).reshape(n_heads, len(packed), -1),
            "The words are cut, not the columns",
        ),
        (lambda packed, n_heads: np.stack(np.split(packed, n_heads, axis=1), axis=1), "The swap is missing"),
        (lambda packed, n_heads: np.stack([packed[:, i::n_heads] for i in range(n_heads)]), "interleaved"),
        (lambda packed, n_heads: right.split(packed, n_heads)[:, :-1], "must have the shape (2, 2, 2), got (2, 1, 2)"),
    ],
    "multi_head": [
        (multi_head_over_d_model, "d_model where d_k belongs"),
        (multi_head_over_all_keys, "h d_k where d_k belongs"),
        (
            lambda x, w_q, w_k, w_v, w_o, n_heads: heads_of(x, w_q, w_k, w_v, 1, w_q.shape[1] ** 0.5)[0] @ w_o,
            "One attention over the full width",
        ),
        (multi_head_joined_wrong, "merged without the swap"),
    ],
    "contributions": [
        (lambda heads, w_o: np.stack([head @ w_o[: head.shape[1]] for head in heads]), "the first d_v rows of W^O"),
        (contributions_of_others, "the output without head i"),
        (contributions_in_equal_shares, "the same share"),
    ],
    "projections_backward": [
        (backward_queries_only, "only the path through the queries"),
        (backward_without_values, "path through the values is missing"),
        (backward_not_swapped, "merged without the swap"),
        (backward_mean, "too small by their number"),
    ],
    "shared_heads": [
        (shared_in_turn, "i % g"),
        (lambda q, k, v: right.shared_heads(q, k[:1], v[:1]), "read the first head"),
        (lambda q, k, v: right.shared_heads(q, k.mean(axis=0)[None], v.mean(axis=0)[None]), "are averaged"),
    ],
}
