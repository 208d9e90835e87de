"""Exercises of lesson 4: scaled dot-product attention."""

import math
import tracemalloc

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.attention_backward import BACKWARD
from course.exercises.attention_weights import ONLY_ROWS, WEIGHTS, scores_of
from minitransformer.nn.decoder import causal_mask
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.softmax import softmax_forward


def softmax_of(scores):
    return softmax_forward(scores)[0]


# -- self_attention ---------------------------------------------------------------------------------------------------


def self_attention_inputs(rng):
    for length, d_model, d_k, d_v in ((2, 4, 2, 3), (5, 12, 3, 4)):
        yield tuple(rng.standard_normal(s) for s in ((length, d_model), *((d_model, d) for d in (d_k, d_k, d_v))))


def self_attention(x, w_q, w_k, w_v):
    return attention_forward(x @ w_q, x @ w_k, x @ w_v)[0]


def over_lost_axis(exponentials):
    return exponentials / exponentials.sum(axis=-1)


SELF_ATTENTION = Exercise(
    "04_attention.self_attention",
    self_attention_inputs,
    reference=self_attention,
    tested="two sizes with d_model, d_k and d_v all different, against the engine's attention of the three projections",
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
            "The root is of the number of words; sqrt(d_k) is that of the columns of q.",
            lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k, math.sqrt(len(x)))) @ (x @ w_v),
        ),
        Mistake(
            "The root is of d_v, the width of a value; sqrt(d_k) is that of the columns of q.",
            lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k, math.sqrt(w_v.shape[1]))) @ (x @ w_v),
        ),
        Mistake(ONLY_ROWS, lambda x, w_q, w_k, w_v: softmax_of(scores_of(x @ w_q, x @ w_k).T).T @ (x @ w_v)),
        Mistake(
            "The sums of the softmax lost their axis: weights are divided by other rows' sums. Write keepdims=True.",
            lambda x, w_q, w_k, w_v: over_lost_axis(np.exp(scores_of(x @ w_q, x @ w_k))) @ (x @ w_v),
        ),
        Mistake(
            "The result is 0. A mask of None does that: np.where takes it for False. Without a mask pass True.",
            lambda x, w_q, w_k, w_v: np.zeros((len(x), w_v.shape[1])),
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

# -- streaming --------------------------------------------------------------------------------------------------------


MANY = 6000
"""Keys of which all scores at once would be seen in the memory."""


def streaming_inputs(rng):
    for n_queries, n_keys, size in ((1, 4, 2), (2, 5, 2), (3, 12, 4)):
        q, k, v = (rng.standard_normal(s) for s in ((n_queries, 4), (n_keys, 4), (n_keys, 3)))
        yield 3 * q, 3 * np.sort(k, axis=0), v, size
    yield q, k, v, 50
    yield 100 * q, 100 * k, v, 4
    yield 100 * np.abs(q), -100 * np.abs(k), v, 4
    yield *(rng.standard_normal((n, 2)) for n in (32, MANY, MANY)), 100


def streamed(
    q, k, v, size, *, fix_total=True, fix_y=True, drop_rest=False, shift=True, first=-np.inf, divide=True, root=None
):
    """Attention over blocks of keys, with what each mistake leaves out."""
    largest, total, y = np.full((len(q), 1), first), np.zeros((len(q), 1)), np.zeros((len(q), v.shape[1]))
    for start in range(0, len(k) - (len(k) % size if drop_rest else 0), size):
        scores = scores_of(q, k[start : start + size], root)
        grown = np.maximum(largest, scores.max(axis=-1, keepdims=True)) if shift else np.zeros_like(largest)
        factor, part = np.exp(largest - grown) if shift else 1.0, np.exp(scores - grown)
        total = total * (factor if fix_total else 1.0) + part.sum(axis=-1, keepdims=True)
        y = y * (factor if fix_y else 1.0) + part @ v[start : start + size]
        largest = grown
    return y / total if divide else y


def averaged_blocks(q, k, v, size):
    blocks = [attention_forward(q, k[i : i + size], v[i : i + size])[0] for i in range(0, len(k), size)]
    return np.mean(blocks, axis=0)


def all_at_once(function, q, k, v, size):
    """Whether the function held half of all scores at a time, beside copies of its inputs."""
    if len(k) < MANY:
        return None
    tracemalloc.start()
    try:
        function(q, k, v, size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    all_scores, inputs = 8 * len(q) * len(k), 8 * (q.size + k.size + v.size)
    if peak < inputs + all_scores / 2:
        return None
    return (
        f"The numbers are right, but nothing is streamed: {len(q)} queries and {len(k):,} keys in blocks of {size} "
        f"took {peak / 1e6:.1f} MB. All scores are {all_scores / 1e6:.1f} MB, those of one block "
        f"{8 * len(q) * size / 1e6:.2f} MB. Keep only one block's scores at a time."
    )


STREAMING = Exercise(
    "04_attention.streaming",
    streaming_inputs,
    reference=lambda q, k, v, size: attention_forward(q, k, v)[0],
    tested="blocks that do and do not divide the number of keys, one block larger than all of them, scores of several "
    "thousand, above and below zero, and the memory of 6,000 keys",
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
        Mistake("The scale 1 / sqrt(d_k) is missing.", lambda *inputs: streamed(*inputs, root=1.0)),
        Mistake("Each block is given the same weight; its weight is its share of all exponentials.", averaged_blocks),
    ),
    properties=(all_at_once,),
    seconds=20.0,
)

EXERCISES = (WEIGHTS, SELF_ATTENTION, DECODER_MASK, BACKWARD, STREAMING)
