"""Exercises of lesson 4: scaled dot-product attention."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.nn.decoder import causal_mask
from minitransformer.ops.attention import attention_backward, attention_forward, attention_weights
from minitransformer.ops.softmax import softmax_backward, softmax_forward


def softmax_of(scores, mask=None, axis=-1):
    """The engine's softmax alone, over any axis."""
    mask = mask if mask is None or axis == -1 else mask.swapaxes(axis, -1)
    return softmax_forward(scores.swapaxes(axis, -1), mask=mask)[0].swapaxes(axis, -1)


def scores_of(q, k, divisor=None):
    return q @ k.swapaxes(-1, -2) / (math.sqrt(q.shape[-1]) if divisor is None else divisor)


# -- weights ----------------------------------------------------------------------------------------------------------


def weights_inputs(rng):
    for n_queries, n_keys, d_k in ((1, 3, 4), (2, 3, 4), (4, 4, 16)):
        mask = rng.random((n_queries, n_keys)) < 0.6
        mask[:, :2] = True  # with one key alone every weight is 1, whatever the scores
        mask[-1, -1] = False
        yield 2 * rng.standard_normal((n_queries, d_k)), 2 * rng.standard_normal((n_keys, d_k)), mask


WEIGHTS = Exercise(
    "04_attention.weights",
    weights_inputs,
    reference=lambda q, k, mask: attention_weights(q, k, mask=mask)[0],
    tested="three sizes, each with a random mask, against the engine's attention_weights",
    mistakes=(
        Mistake("The scale 1 / sqrt(d_k) is missing.", lambda q, k, mask: softmax_of(scores_of(q, k, 1.0), mask)),
        Mistake(
            "The scores are divided by d_k; eq. 1 divides by its square root.",
            lambda q, k, mask: softmax_of(scores_of(q, k, q.shape[-1]), mask),
        ),
        Mistake(
            "The scores are divided by the square root of the number of keys; d_k is the width of one key.",
            lambda q, k, mask: softmax_of(scores_of(q, k, math.sqrt(len(k))), mask),
        ),
        Mistake(
            "The mask is applied after the softmax: the masked keys are still in the denominator, and the rows no "
            "longer sum to one. Set their scores to -inf before it.",
            lambda q, k, mask: softmax_of(scores_of(q, k)) * mask,
        ),
        Mistake(
            "The mask is the wrong way round: True means that the query may attend to the key.",
            lambda q, k, mask: softmax_of(scores_of(q, k), ~mask),
        ),
        Mistake("The mask is not used.", lambda q, k, mask: softmax_of(scores_of(q, k))),
        Mistake(
            "Masked scores are set to 0. A score of 0 is an ordinary score, exp(0) = 1; -inf gives weight 0.",
            lambda q, k, mask: softmax_of(np.where(mask, scores_of(q, k), 0.0)),
        ),
        Mistake(
            "The softmax runs over the queries: columns sum to one. Each row, one query, must.",
            lambda q, k, mask: softmax_of(scores_of(q, k), mask, axis=-2),
        ),
    ),
)

# -- self_attention ---------------------------------------------------------------------------------------------------


def self_attention_inputs(rng):
    for length, d_model, d_k in ((2, 4, 2), (5, 12, 3)):
        x, w_q, w_k, w_v = (rng.standard_normal(s) for s in ((length, d_model), *[(d_model, d_k)] * 3))
        yield x, w_q, w_k, w_v


def self_attention(x, w_q, w_k, w_v):
    return attention_forward(x @ w_q, x @ w_k, x @ w_v)[0]


SELF_ATTENTION = Exercise(
    "04_attention.self_attention",
    self_attention_inputs,
    reference=self_attention,
    tested="two sizes with d_model larger than d_k, against the engine's attention of the three projections",
    mistakes=(
        Mistake(
            "d_model where d_k belongs: the scores are sums of d_k products, so sqrt(d_k) is their spread.",
            lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k, math.sqrt(x.shape[-1]))) @ (x @ w_v),
        ),
        Mistake(
            "Queries and keys are exchanged: row t must hold the scores of query t.",
            lambda x, w_q, w_k, w_v: self_attention(x, w_k, w_q, w_v),
        ),
        Mistake(
            "The scale 1 / sqrt(d_k) is missing.",
            lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k, 1.0)) @ (x @ w_v),
        ),
        Mistake(
            "The weights are applied to x itself; the values are x W^V.",
            lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k)) @ x,
        ),
        Mistake(
            "The weights are transposed: each output must be a mean of values, with weights that sum to one.",
            lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k)).T @ (x @ w_v),
        ),
    ),
)

# -- decoder_mask -----------------------------------------------------------------------------------------------------


def decoder_mask(lengths, max_length):
    real = np.arange(max_length) < lengths[:, None]  # (B, T)
    return causal_mask(max_length, np)[0] & real[:, None, :]  # (B, T, T)


def leak(function, lengths, max_length):
    """Where a query sees a later position."""
    leaks = np.argwhere(function(lengths, max_length) & ~np.tri(max_length, dtype=bool))
    return f"The future leaks from position {leaks[0][2] + 1} to {leaks[0][1] + 1}." if len(leaks) else None


DECODER_MASK = Exercise(
    "04_attention.decoder_mask",
    lambda rng: [(np.array([3]), 3), (np.array([2]), 3), (np.array([4, 1, 3]), 4)],
    reference=decoder_mask,
    tested="batches of one and of three sentences, with and without padding",
    mistakes=(
        Mistake(
            "The mask is strict: a position must see itself too, or the first one sees nothing.",
            lambda lengths, n: decoder_mask(lengths, n) & ~np.eye(n, dtype=bool),
        ),
        Mistake(
            "Padding lies on the wrong axis, or on both: the rows of padded queries are hidden. Only keys, the last "
            "axis, are to be.",
            lambda lengths, n: causal_mask(n, np)[0] & (np.arange(n) < lengths[:, None])[:, :, None],
        ),
        Mistake(
            "Padding is not masked: keys from position lengths[b] on are no words.",
            lambda lengths, n: np.repeat(causal_mask(n, np)[0], len(lengths), axis=0),
        ),
        Mistake(
            "Padding is cut one too late: with lengths[b] words the last real position is lengths[b] - 1.",
            lambda lengths, n: decoder_mask(lengths + 1, n),
        ),
        Mistake(
            "The mask is the wrong way round: True means that the query may attend to the key.",
            lambda lengths, n: ~decoder_mask(lengths, n),
        ),
    ),
    properties=(leak,),
)

# -- backward ---------------------------------------------------------------------------------------------------------


def backward_inputs(rng):
    for n_queries, n_keys, d_k, d_v in ((1, 2, 4, 2), (3, 4, 5, 2)):
        q, k, v, grad_y = (
            rng.standard_normal(s) for s in ((n_queries, d_k), (n_keys, d_k), (n_keys, d_v), (n_queries, d_v))
        )
        yield grad_y, q, k, v, attention_weights(q, k)[0]


def backward(grad_y, q, k, v, weights):
    return attention_backward(grad_y, attention_forward(q, k, v)[1])


def backward_through(softmax_rule, q_divisor=None, k_divisor=None):
    """Attention's backward with another rule for the softmax, or other scales; None is the right one."""

    def wrong(grad_y, q, k, v, weights):
        grad_scores = softmax_rule(grad_y @ v.T, weights)
        root = math.sqrt(q.shape[-1])
        return grad_scores @ k / (q_divisor or root), grad_scores.T @ q / (k_divisor or root), weights.T @ grad_y

    return wrong


def softmax_rule(grad_weights, weights):
    return softmax_backward(grad_weights, (weights,))[0]


BACKWARD = Exercise(
    "04_attention.backward",
    backward_inputs,
    reference=backward,
    tested="all three gradients at two sizes, against the engine's attention_backward",
    mistakes=(
        Mistake(
            "The mean term of the softmax is missing: its backward is weights * (g - sum(g * weights)).",
            backward_through(lambda g, weights: weights * g),
        ),
        Mistake(
            "The softmax is skipped: grad_weights is used where grad_scores belongs.",
            backward_through(lambda g, weights: g),
        ),
        Mistake(
            "The mean fit is divided by the number of keys: sum(g * weights) is a mean already, the weights sum to 1.",
            backward_through(lambda g, weights: weights * (g - (g * weights).mean(axis=-1, keepdims=True))),
        ),
        Mistake(
            "The mean fit is the plain mean of g; each g must count with its weight: sum(g * weights).",
            backward_through(lambda g, weights: weights * (g - g.mean(axis=-1, keepdims=True))),
        ),
        Mistake(
            "The sum of the softmax runs over the queries; it belongs to one row.",
            backward_through(lambda g, weights: weights * (g - (g * weights).sum(axis=0, keepdims=True))),
        ),
        Mistake(
            "The scale 1 / sqrt(d_k) is missing in grad_q and grad_k: forward multiplied the scores by it.",
            backward_through(softmax_rule, 1.0, 1.0),
        ),
        Mistake(
            "grad_q and grad_k are divided by d_k; forward divided the scores by its square root.",
            lambda grad_y, q, *rest: backward_through(softmax_rule, q.shape[-1], q.shape[-1])(grad_y, q, *rest),
        ),
        Mistake("The scale 1 / sqrt(d_k) is missing in grad_k.", backward_through(softmax_rule, None, 1.0)),
        Mistake("The scale 1 / sqrt(d_k) is missing in grad_q.", backward_through(softmax_rule, 1.0, None)),
    ),
)

# -- streaming --------------------------------------------------------------------------------------------------------


def streaming_inputs(rng):
    for n_queries, n_keys, size in ((1, 4, 2), (2, 5, 2), (3, 12, 4)):
        q, k, v = (rng.standard_normal(s) for s in ((n_queries, 4), (n_keys, 4), (n_keys, 3)))
        yield 3 * q, 3 * np.sort(k, axis=0), v, size
    yield 100 * q, 100 * k, v, 4
    yield 100 * np.abs(q), -100 * np.abs(k), v, 4


def streamed(q, k, v, size, *, fix_total=True, fix_y=True, drop_rest=False, shift=True, first=-np.inf, divide=True):
    """Attention over blocks of keys, with what each mistake leaves out."""
    largest, total, y = np.full((len(q), 1), first), np.zeros((len(q), 1)), np.zeros((len(q), v.shape[1]))
    for start in range(0, len(k) - (len(k) % size if drop_rest else 0), size):
        scores = scores_of(q, k[start : start + size])
        grown = np.maximum(largest, scores.max(axis=-1, keepdims=True)) if shift else np.zeros_like(largest)
        factor, part = np.exp(largest - grown) if shift else 1.0, np.exp(scores - grown)
        total = total * (factor if fix_total else 1.0) + part.sum(axis=-1, keepdims=True)
        y = y * (factor if fix_y else 1.0) + part @ v[start : start + size]
        largest = grown
    return y / total if divide else y


def averaged_blocks(q, k, v, size):
    blocks = [attention_forward(q, k[i : i + size], v[i : i + size])[0] for i in range(0, len(k), size)]
    return np.mean(blocks, axis=0)


STREAMING = Exercise(
    "04_attention.streaming",
    streaming_inputs,
    reference=lambda q, k, v, size: attention_forward(q, k, v)[0],
    tested="blocks that do and do not divide the number of keys, and scores of several thousand, above and below zero",
    mistakes=(
        Mistake(
            "When the largest score grows, the old sum of exponentials must shrink by exp(old largest - new largest).",
            lambda *inputs: streamed(*inputs, fix_total=False),
        ),
        Mistake(
            "When the largest score grows, the old output must shrink by exp(old largest - new largest) too.",
            lambda *inputs: streamed(*inputs, fix_y=False),
        ),
        Mistake(
            "Neither the old sum nor the old output shrinks when the largest score grows.",
            lambda *inputs: streamed(*inputs, fix_total=False, fix_y=False),
        ),
        Mistake("The last block, shorter than the others, is lost.", lambda *inputs: streamed(*inputs, drop_rest=True)),
        Mistake(
            "Exponentials overflow at large scores: subtract the largest score seen so far before exp.",
            lambda *inputs: streamed(*inputs, shift=False),
        ),
        Mistake(
            "The largest score so far starts at 0: where all scores lie far below, every exponential is 0, and 0 / 0 "
            "is nan. Start at -inf.",
            lambda *inputs: streamed(*inputs, first=0.0),
        ),
        Mistake(
            "The division by the sum of the exponentials is missing at the end.",
            lambda *inputs: streamed(*inputs, divide=False),
        ),
        Mistake("Each block is given the same weight; its weight is its share of all exponentials.", averaged_blocks),
    ),
)

EXERCISES = (WEIGHTS, SELF_ATTENTION, DECODER_MASK, BACKWARD, STREAMING)
