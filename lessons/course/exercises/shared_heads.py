"""Exercises of lesson 5: several heads of queries that share keys and values, and the backward."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.attention import attention_backward, attention_forward

# -- shared_heads -----------------------------------------------------------------------------------------------------


def shared_inputs(rng):
    for n_heads, n_groups, n_queries, n_keys in ((2, 1, 1, 2), (4, 2, 2, 3), (6, 3, 4, 5)):
        shapes = ((n_heads, n_queries, 4), (n_groups, n_keys, 4), (n_groups, n_keys, 3))
        yield tuple(rng.standard_normal(shape) for shape in shapes)


def shared_with(order):
    """Attention where query head i reads the key and value head ``order(h, g)[i]``."""

    def shared(q, k, v):
        places = order(len(q), len(k))
        return attention_forward(q, k[places], v[places])[0]

    return shared


def in_blocks(h, g):
    return np.arange(h) // (h // g)


def averaged_groups(q, k, v):
    return attention_forward(q, k.mean(axis=0, keepdims=True), v.mean(axis=0, keepdims=True))[0]


SHARED_HEADS = Exercise(
    "05_heads.shared_heads",
    shared_inputs,
    reference=shared_with(in_blocks),
    tested="one, two and three heads of keys and values, against attention with these repeated",
    mistakes=(
        Mistake(
            "Query head i reads key head i % g. Neighbors share: it must read head i // (h / g).",
            shared_with(lambda h, g: np.arange(h) % g),
        ),
        Mistake("All query heads read the first head of keys and values.", shared_with(lambda h, g: np.arange(h) * 0)),
        Mistake("The heads of keys and values are averaged; each serves its own group of queries.", averaged_groups),
        Mistake(
            "Keys are shared in blocks, but values in turn: both must follow i // (h / g).",
            lambda q, k, v: attention_forward(q, k[in_blocks(len(q), len(k))], v[np.arange(len(q)) % len(v)])[0],
        ),
        Mistake(
            "The scale 1 / sqrt(d_k) is missing.",
            lambda q, k, v: shared_with(in_blocks)(q * math.sqrt(q.shape[-1]), k, v),
        ),
    ),
)

# -- shared_heads_backward --------------------------------------------------------------------------------------------


def shared_backward_inputs(rng):
    for q, k, v in shared_inputs(rng):
        yield rng.standard_normal((*q.shape[:2], v.shape[2])), q, k, v


def shared_backward(grad_y, q, k, v, *, order=in_blocks, gather=lambda grads: grads.sum(axis=0), factor=1.0):
    """Backward through attention with repeated keys and values; ``gather``: the gradients of one head's copies."""
    places = order(len(q), len(k))
    grad_q, *repeated = attention_backward(grad_y, attention_forward(q, k[places], v[places])[1])
    grad_k, grad_v = (np.stack([gather(grad[places == i]) for i in range(len(k))]) for grad in repeated)
    return factor * grad_q, factor * grad_k, grad_v


SHARED_HEADS_BACKWARD = Exercise(
    "05_heads.shared_heads_backward",
    shared_backward_inputs,
    reference=lambda grad_y, q, k, v: shared_backward(grad_y, q, k, v),
    tested="all three gradients for one, two and three shared heads, against attention with these repeated",
    parts=("grad_q", "grad_k", "grad_v"),
    mistakes=(
        Mistake(
            "The gradients of a group are averaged. A shared key served h / g heads: sum.",
            lambda *inputs: shared_backward(*inputs, gather=lambda grads: grads.mean(axis=0)),
        ),
        Mistake(
            "Only the first query head of each group sends its gradient to the shared key and value.",
            lambda *inputs: shared_backward(*inputs, gather=lambda grads: grads[0]),
        ),
        Mistake(
            "Query head i belongs to group i // (h / g), not to group i % g.",
            lambda *inputs: shared_backward(*inputs, order=lambda h, g: np.arange(h) % g),
        ),
        Mistake(
            "The scale 1 / sqrt(d_k) is missing in the gradients of queries and keys.",
            lambda grad_y, q, k, v: shared_backward(grad_y, q, k, v, factor=math.sqrt(q.shape[-1])),
        ),
    ),
)
