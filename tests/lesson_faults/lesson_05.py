"""Planted faults of lesson 5: for each exercise, words that the message must hold and the wrong function."""

import numpy as np
from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_05 as right

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
        "in reverse order": "heads.swapaxes -> heads[::-1].swapaxes",
        "a row for each word of each": lambda heads: np.concatenate(list(heads), axis=0),
    },
    "multi_head": {
        "divided by d_k, not by its root": "math.sqrt(q.shape[-1]) -> q.shape[-1]",
        "d_model where d_k belongs": "q.shape[-1] -> x.shape[-1]",
        "h d_k where d_k belongs": "q.shape[-1] -> w_q.shape[-1]",
        "One attention over the full width": with_inputs(right.multi_head, n_heads=lambda n_heads: 1),
        "missing before and after": (
            "(split(x @ weight, n_heads) for -> ((x @ weight).reshape(len(x), n_heads, -1) for",
            "merge(weights @ v) -> (weights @ v).reshape(len(x), -1)",
        ),
        "merged without the swap": "merge(weights @ v) -> (weights @ v).reshape(len(x), -1)",
    },
    "contributions": {
        "the first d_v rows of W^O": lambda heads, w_o: np.stack([head @ w_o[: head.shape[1]] for head in heads]),
        "the output without head i": with_result(right.contributions, lambda parts: parts.sum(axis=0) - parts),
        "the same share": with_result(right.contributions, lambda parts: 0.0 * parts + parts.mean(axis=0)),
    },
    "projections_backward": {
        "only the path through the queries": "zip(merged, (w_q, w_k, w_v), strict=True) -> [(merged[0], w_q)]",
        "path through the values is missing": "zip(merged, (w_q, w_k, w_v), strict=True) -> zip(merged, (w_q, w_k))",
        "merged without the swap": "merge(grad) -> grad.reshape(len(x), -1)",
        "too small by their number": "x.T @ grad -> x.T @ grad / len(x)",
    },
    "shared_heads": {
        "i % g": lambda q, k, v: right.shared_heads(q, *(np.tile(each, (len(q) // len(k), 1, 1)) for each in (k, v))),
        "read the first head": lambda q, k, v: right.shared_heads(q, k[:1], v[:1]),
        "are averaged": lambda q, k, v: right.shared_heads(q, k.mean(axis=0)[None], v.mean(axis=0)[None]),
    },
    "shared_heads_backward": {
        "The gradients of a group are averaged": ("groups).sum( -> groups).mean(", "grads).sum( -> grads).mean("),
        "Only the first query head": ("groups).sum(axis=1) -> groups)[:, 0]", "grads).sum(axis=1) -> grads)[:, 0]"),
        "The scale 1 / sqrt(d_k) is missing": "keepdims=True)) / math.sqrt(d_k) -> keepdims=True))",
    },
}
