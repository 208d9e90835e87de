"""Exercises of lesson 5: many heads."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.shared_heads import SHARED_HEADS, SHARED_HEADS_BACKWARD
from course.exercises.split_heads import MERGE, SPLIT, merge, split
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.linear import linear_backward, linear_forward
from minitransformer.ops.shape import merge_heads_forward, split_heads_backward

# -- multi_head -------------------------------------------------------------------------------------------------------


def multi_head_inputs(rng):
    for length, d_model, n_heads, d_k, d_v in ((2, 4, 2, 3, 2), (3, 5, 2, 3, 4), (5, 8, 4, 1, 2)):
        x = rng.standard_normal((length, d_model))
        keys = [rng.standard_normal((d_model, n_heads * d_k)) for _ in range(2)]
        w_v = rng.standard_normal((d_model, n_heads * d_v))
        yield x, *keys, w_v, rng.standard_normal((n_heads * d_v, d_model)), n_heads


def multi_head(x, w_q, w_k, w_v, w_o, n_heads, *, root=None, cut=split, join=merge):
    """The layer; ``root``: a function of (x, q) for the number under the root, d_k if left out."""
    q, k, v = (cut(x @ weight, n_heads) for weight in (w_q, w_k, w_v))
    factor = math.sqrt(q.shape[-1] / root(x, q)) if root else 1.0
    return join(attention_forward(factor * q, k, v)[0]) @ w_o


def sum_of_heads(x, w_q, w_k, w_v, w_o, n_heads):
    heads = attention_forward(*(split(x @ weight, n_heads) for weight in (w_q, w_k, w_v)))[0]
    return np.tile(heads.mean(axis=0), n_heads) @ w_o


MULTI_HEAD = Exercise(
    "05_heads.multi_head",
    multi_head_inputs,
    reference=lambda x, w_q, w_k, w_v, w_o, n_heads: multi_head(x, w_q, w_k, w_v, w_o, n_heads),
    tested="two and four heads, with d_v other than d_k, against the engine's own steps",
    mistakes=(
        Mistake(
            "d_model where d_k belongs: each head's scores are sums of d_k products.",
            lambda *inputs: multi_head(*inputs, root=lambda x, q: x.shape[-1]),
        ),
        Mistake(
            "h d_k where d_k belongs: the root holds the width of one head, not of all side by side.",
            lambda *inputs: multi_head(*inputs, root=lambda x, q: len(q) * q.shape[-1]),
        ),
        Mistake(
            "The scores are divided by d_k, not by its root.",
            lambda *inputs: multi_head(*inputs, root=lambda x, q: q.shape[-1] ** 2),
        ),
        Mistake("The scale 1 / sqrt(d_k) is missing.", lambda *inputs: multi_head(*inputs, root=lambda x, q: 1.0)),
        Mistake(
            "One attention over the full width: the projections are not cut into heads.",
            lambda x, w_q, w_k, w_v, w_o, n_heads: multi_head(x, w_q, w_k, w_v, w_o, 1),
        ),
        Mistake(
            "The last projection, W^O, is missing.",
            lambda x, w_q, w_k, w_v, w_o, n_heads: multi_head(x, w_q, w_k, w_v, np.eye(len(w_o)), n_heads),
        ),
        Mistake(
            "The heads are cut with a reshape to (n_heads, T, d), without a swap: a head then holds pieces of words.",
            lambda *inputs: multi_head(*inputs, cut=lambda packed, h: packed.reshape(h, len(packed), -1)),
        ),
        Mistake(
            "The heads are merged without the swap: put the positions in front, then reshape.",
            lambda *inputs: multi_head(*inputs, join=lambda heads: heads.reshape(heads.shape[1], -1)),
        ),
        Mistake(
            "The swap is missing before and after: the heads of one word attend to each other. The heads belong in "
            "front, (n_heads, T, d).",
            lambda *inputs: multi_head(
                *inputs,
                cut=lambda packed, h: packed.reshape(len(packed), h, -1),
                join=lambda words: words.reshape(len(words), -1),
            ),
        ),
        Mistake("The heads are averaged. Each must keep its own columns, and its own rows of W^O.", sum_of_heads),
    ),
)

# -- contributions ----------------------------------------------------------------------------------------------------


def contributions_inputs(rng):
    for n_heads, length, d_v, d_model in ((2, 1, 2, 4), (3, 4, 2, 6), (2, 3, 2, 5)):
        yield rng.standard_normal((n_heads, length, d_v)), rng.standard_normal((n_heads * d_v, d_model))


def contributions(heads, w_o):
    """One head at a time, with zeros in the place of all others."""
    alone = np.eye(len(heads))[:, :, None, None] * heads  # (h, h, T, d_v): in [i] only head i is left
    return merge_heads_forward(alone)[0] @ w_o


CONTRIBUTIONS = Exercise(
    "05_heads.contributions",
    contributions_inputs,
    reference=contributions,
    tested="two and three heads, against the layer with all other heads set to zero",
    mistakes=(
        Mistake(
            "Every head is multiplied by the first d_v rows of W^O; head i owns rows i d_v to (i + 1) d_v.",
            lambda heads, w_o: heads @ w_o[: heads.shape[-1]],
        ),
        Mistake(
            "The rows of W^O are interleaved: head i owns d_v consecutive rows.",
            lambda heads, w_o: np.stack([head @ w_o[i :: len(heads)] for i, head in enumerate(heads)]),
        ),
        Mistake(
            "This is the output without head i. Its contribution is what is then missing.",
            lambda heads, w_o: contributions(heads, w_o).sum(axis=0) - contributions(heads, w_o),
        ),
        Mistake(
            "Every head is given the same share of the output.",
            lambda heads, w_o: np.stack([merge(heads) @ w_o / len(heads)] * len(heads)),
        ),
    ),
)

# -- projections_backward ---------------------------------------------------------------------------------------------


def projections_inputs(rng):
    for n_heads, length, d_k, d_v, d_model in ((2, 1, 2, 2, 3), (2, 3, 2, 3, 5)):
        shapes = [(n_heads, length, d) for d in (d_k, d_k, d_v)]
        shapes += [(length, d_model), *((d_model, n_heads * d) for d in (d_k, d_k, d_v))]
        yield tuple(rng.standard_normal(shape) for shape in shapes)


def projections_backward(grad_q, grad_k, grad_v, x, w_q, w_k, w_v):
    found = []
    for grad, weight in ((grad_q, w_q), (grad_k, w_k), (grad_v, w_v)):
        saved = ((1, len(x), weight.shape[1]), len(grad), (grad.shape[-1],))
        (grad_projected,) = split_heads_backward(grad[None], saved)
        found.append(linear_backward(grad_projected[0], linear_forward(x, weight)[1]))
    return sum(pair[0] for pair in found), *(pair[1] for pair in found)


def only_paths(*wanted):
    """``grad_x`` along some of the three paths: 0 queries, 1 keys, 2 values."""

    def wrong(*inputs):
        grads = [grad if i in wanted else 0.0 * grad for i, grad in enumerate(inputs[:3])]
        return projections_backward(*grads, *inputs[3:])[0], *projections_backward(*inputs)[1:]

    return wrong


def merged_without_swap(*inputs):
    grads = [split(grad.reshape(grad.shape[1], -1), len(grad)) for grad in inputs[:3]]
    return projections_backward(*grads, *inputs[3:])


def mean_over_positions(*inputs):
    grad_x, *grads = projections_backward(*inputs)
    return grad_x, *(grad / len(inputs[3]) for grad in grads)


PROJECTIONS_BACKWARD = Exercise(
    "05_heads.projections_backward",
    projections_inputs,
    reference=projections_backward,
    tested="all four gradients at two sizes, against the engine's split_heads_backward and linear_backward",
    parts=("grad_x", "grad_w_q", "grad_w_k", "grad_w_v"),
    mistakes=(
        Mistake("grad_x has only the path through the queries: x made keys and values too.", only_paths(0)),
        Mistake("The path through the values is missing in grad_x.", only_paths(0, 1)),
        Mistake("The path through the queries is missing in grad_x.", only_paths(1, 2)),
        Mistake("The path through the keys is missing in grad_x.", only_paths(0, 2)),
        Mistake(
            "The three paths are averaged; they add up, since a step of x takes all three.",
            lambda *inputs: (projections_backward(*inputs)[0] / 3, *projections_backward(*inputs)[1:]),
        ),
        Mistake("The heads are merged without the swap: gradients come to the wrong words.", merged_without_swap),
        Mistake(
            "The gradients of the matrices are means over the positions, too small by their number: sum.",
            mean_over_positions,
        ),
    ),
)

EXERCISES = (SPLIT, MERGE, MULTI_HEAD, CONTRIBUTIONS, PROJECTIONS_BACKWARD, SHARED_HEADS, SHARED_HEADS_BACKWARD)
