"""Exercise of lesson 4: the weights of attention."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.more_sources import right_only_for_as_many
from minitransformer.ops.attention import attention_weights


def swapped(x):
    return x.swapaxes(-1, -2)


def scores_of(q, k, divisor=None, turn=swapped):
    return q @ turn(k) / (math.sqrt(q.shape[-1]) if divisor is None else divisor)


# -- weights ----------------------------------------------------------------------------------------------------------


def weights_inputs(rng):
    """With leading axes B = H = S = d_k on purpose: unequal sizes would make k.T fail by itself."""
    for n_queries, n_keys, d_k in ((1, 3, 4), (2, 3, 4), (4, 4, 16)):
        mask = rng.random((n_queries, n_keys)) < 0.6
        mask[:, :2] = True  # with one key alone every weight is 1, whatever the scores
        mask[-1, -1] = False
        yield 2 * rng.standard_normal((n_queries, d_k)), 2 * rng.standard_normal((n_keys, d_k)), mask
    far = np.array([[40.0], [-160.0]]) * (1 + rng.random((2, 4)))  # scores of ten thousand, above and below zero
    keys = np.array([[40.0], [80.0], [320.0]]) * (1 + rng.random((3, 4)))  # the first query's largest score is hidden
    yield far, keys, np.array([[True, True, False], [True, False, True]])
    lengths = np.array([3, 2, 0])  # the last sentence has no word, so its rows may attend to nothing
    yield *rng.standard_normal((2, 3, 3, 3)), np.arange(3) < lengths[:, None, None]  # (B, 1, S)
    yield *rng.standard_normal((2, 3, 3, 3, 3)), np.tri(3, dtype=bool)


def weights_by(
    q,
    k,
    mask,
    *,
    divisor=None,
    turn=swapped,
    hide="before",
    axis=-1,
    largest="row",
    hidden=-np.inf,
    added=False,
    zeros=True,
    least=0.0,
    nan=np.nan,
):
    """The weights, with what each mistake does.

    added: whether ``hidden`` is added to a score, and does not take its place
    zeros: whether a row that may attend to nothing gives zeros   least, nan: stand for a sum of 0 and for NaN
    """
    scores = scores_of(q, k, divisor and divisor(q, k), turn)
    mask = np.broadcast_to(~mask if hide == "inverted" else mask, scores.shape)
    if hide in ("before", "inverted"):
        scores = scores + np.where(mask, 0.0, hidden) if added else np.where(mask, scores, hidden)
    elif hide == "as zero":
        scores = np.where(mask, scores, 0.0)
    shift = {"row": scores.max(axis=axis, keepdims=True), "whole": scores.max(), "none": 0.0}[largest]
    exponentials = np.exp(scores - shift) * (mask if hide == "as factor" else 1.0)
    total = exponentials.sum(axis=axis, keepdims=True)
    found = np.nan_to_num(exponentials / np.where(total == 0.0, least, total), nan=nan)
    if zeros:
        found = np.where(mask.any(axis=-1, keepdims=True), found, 0.0)
    return found * mask if hide == "after" else found


def forgetting(message, manners, **mistake):
    """One mistake, in each manner in which the rest of the function may be written: two at once have a name too."""
    return [
        Mistake(message, lambda q, k, mask, manner=manner: weights_by(q, k, mask, **manner, **mistake))
        for manner in manners
    ]


CAREFUL, EMPTY_NAN, EMPTY_UNIFORM = {}, {"zeros": False}, {"zeros": False, "hidden": -1e9}
EMPTY_FULL = {**EMPTY_UNIFORM, "added": True}
OVERFLOWS = {"largest": "none"}, {"largest": "none", "zeros": False}
OVERFLOWS_IN_FACTOR = {"largest": "none", "hide": "as factor"}, {"largest": "none", "zeros": False, "hide": "as factor"}
TURNED = (CAREFUL, EMPTY_NAN, EMPTY_UNIFORM, EMPTY_FULL, *OVERFLOWS)
MANNERS = tuple({**manner, "turn": turn} for turn in (swapped, np.transpose) for manner in TURNED)
ONLY_ROWS = "The softmax runs over the queries: columns sum to one. Each row, one query, must: axis=-1."

SIZES_APART = (
    "With equal sizes it is right, and with other numbers of sentences, heads, queries and keys it is not: d_k is the "
    "last axis of q, whatever stands in front."
)


def other_sizes(function, q, k, mask):
    """Axes in front, and no two of one size: here q.shape[1] is no d_k."""
    if q.ndim < 4:
        return None
    rng = np.random.default_rng(0)
    more = rng.standard_normal((2, 5, 4, 3)), rng.standard_normal((2, 5, 6, 3)), np.tri(4, 6, dtype=bool)
    return right_only_for_as_many(function, WEIGHTS.reference, (q, k, mask), more, SIZES_APART)


WEIGHTS = Exercise(
    "04_attention.weights",
    weights_inputs,
    reference=lambda q, k, mask: attention_weights(q, k, mask=mask)[0],
    tested="one head of three sizes, several sentences, several heads, each with a mask; scores of thousands; rows "
    "that may attend to nothing; against the engine's attention_weights",
    mistakes=(
        *forgetting("The scale 1 / sqrt(d_k) is missing.", MANNERS, divisor=lambda q, k: 1.0),
        *forgetting(
            "The scores are divided by d_k; eq. 1 divides by its square root.",
            MANNERS,
            divisor=lambda q, k: q.shape[-1],
        ),
        *forgetting(
            "The scores are divided by the square root of the number of keys; d_k is the width of one key.",
            MANNERS,
            divisor=lambda q, k: math.sqrt(k.shape[-2]),
        ),
        *forgetting(
            "The scores are divided by the square root of the number of queries; d_k is the width of one query.",
            MANNERS,
            divisor=lambda q, k: math.sqrt(q.shape[-2]),
        ),
        *forgetting(
            "The mask is applied after the softmax: the masked keys are still in the denominator, and the rows no "
            "longer sum to one. Set their scores to -inf before it.",
            MANNERS,
            hide="after",
        ),
        *forgetting(
            "The mask is the wrong way round: True means that the query may attend to the key. (PyTorch's "
            "nn.MultiheadAttention says True for what is hidden.)",
            MANNERS,
            hide="inverted",
        ),
        *forgetting("The mask is not used.", MANNERS, hide="not"),
        *forgetting(
            "Masked scores are set to 0. A score of 0 is an ordinary score, exp(0) = 1; -inf gives weight 0.",
            MANNERS,
            hide="as zero",
        ),
        *forgetting(ONLY_ROWS, MANNERS, axis=-2),
        *forgetting(ONLY_ROWS, MANNERS, axis=0),
        *forgetting(
            "The softmax runs over axis 1, which is the last axis only if there are two. axis=-1 is always the last.",
            MANNERS,
            axis=1,
        ),
        *forgetting(
            "k.T reverses all axes, also those of sentences and heads. Exchange the last two: k.swapaxes(-1, -2).",
            TURNED,
            turn=np.transpose,
        ),
        *forgetting(
            "The largest score of the whole array is subtracted: in a row far below it every exponential is 0, and "
            "0 / 0 is no weight. Each row has its own largest.",
            (CAREFUL, EMPTY_NAN, EMPTY_UNIFORM, EMPTY_FULL, {"least": 1.0}),
            largest="whole",
        ),
        *forgetting(
            "Exponentials overflow: exp(800) is inf, and inf / inf is nan. Subtract the largest score of each row.",
            (*OVERFLOWS, *OVERFLOWS_IN_FACTOR, {"largest": "none", "nan": 0.0}),
        ),
        *forgetting(
            "The largest score that is subtracted may be a hidden one: then every visible exponential is 0. Set hidden "
            "scores to -inf first.",
            ({}, {"zeros": False}, {"nan": 0.0}),
            hide="as factor",
        ),
        *forgetting(
            "Hidden scores are set to -1e4, and other scores lie below that: the hidden key gets the weight. Use -inf.",
            ({}, {"zeros": False}, {"zeros": False, "added": True}),
            hidden=-1e4,
        ),
        *forgetting(
            "A row that may attend to nothing holds NaN: there -inf is subtracted from -inf, or 0 divided by 0. "
            "It must be zeros.",
            (EMPTY_NAN,),
        ),
        *forgetting(
            "A row that may attend to nothing has equal weights: -1e9 hides a key only beside larger scores. Use -inf, "
            "and give such a row zeros.",
            (EMPTY_UNIFORM,),
        ),
        *forgetting(
            "A row that may attend to nothing has weights as without a mask: -1e9 is added to all of its scores, and "
            "changes nothing between them. Give such a row zeros.",
            (EMPTY_FULL,),
        ),
    ),
    properties=(other_sizes,),
)
