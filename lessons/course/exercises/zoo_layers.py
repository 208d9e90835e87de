"""Bug zoo, cages 1, 4, 5, 6 and 7: softmax, mask, norm, dropout masks, scores."""

import math
from itertools import combinations

import numpy as np

from course.exercises.zoo_training import cage
from minitransformer.ops.layer_norm import layer_norm_forward
from minitransformer.ops.softmax import softmax_backward, softmax_forward

# -- 1 softmax_gradient -----------------------------------------------------------------------------------------------


def softmax_gradient_inputs(rng):
    for shape in ((2, 2, 3), (5, 3, 4)):
        yield rng.standard_normal(shape), softmax_forward(2 * rng.standard_normal(shape))[0]


def softmax_gradient(grad_y, y):
    return softmax_backward(grad_y, (y,))[0]


SOFTMAX_GRADIENT = cage(
    "softmax_gradient",
    softmax_gradient_inputs,
    softmax_gradient,
    "batches of two and of five, against the engine's softmax_backward",
    (
        "Too small by the batch size: a mean over the batch belongs to the loss, once, and no layer knows of it.",
        lambda grad_y, y: softmax_gradient(grad_y, y) / len(y),
    ),
    ("The mean term is missing: raising one probability lowers the others.", lambda grad_y, y: y * grad_y),
    (
        "The sum runs over the whole array; it belongs to one row, axis=-1.",
        lambda grad_y, y: y * (grad_y - (grad_y * y).sum()),
    ),
    (
        "The sum runs over the queries; it belongs to one row, axis=-1.",
        lambda grad_y, y: y * (grad_y - (grad_y * y).sum(axis=-2, keepdims=True)),
    ),
    (
        "In the sum grad_y must be weighted by y; here it is a plain mean.",
        lambda grad_y, y: y * (grad_y - grad_y.mean(axis=-1, keepdims=True)),
    ),
)

# -- 4 padding_mask ---------------------------------------------------------------------------------------------------


def padding_mask_inputs(rng):
    for lengths, size in (([2], 3), ([4, 1, 3], 4)):
        yield rng.standard_normal((len(lengths), size, size)), np.array(lengths)


def masked_softmax(scores, lengths, extra=0, turned=False):
    real = (np.arange(scores.shape[-1]) < lengths[:, None] + extra)[:, None, :]  # (B, 1, S)
    return softmax_forward(scores, mask=real.swapaxes(-1, -2) if turned else real)[0]


def turned_with_nan(scores, lengths):
    """The wrong axis, by a softmax without the engine's guard for empty rows."""
    weights = masked_softmax(scores, lengths, turned=True)
    return np.where(weights.sum(axis=-1, keepdims=True) > 0.0, weights, np.nan)


WRONG_AXIS = (
    "The mask lies on the wrong axis: it hides padded queries (rows), and every real word still reads padding. "
    "It must hide padded keys, the last axis."
)

PADDING_MASK = cage(
    "padding_mask",
    padding_mask_inputs,
    lambda scores, lengths: masked_softmax(scores, lengths),
    "one sentence, and a batch of three lengths",
    (WRONG_AXIS, lambda scores, lengths: masked_softmax(scores, lengths, turned=True)),
    (WRONG_AXIS, turned_with_nan),
    (
        "The mask is applied after the softmax: rows no longer sum to one, and padding still counts in the sum.",
        lambda scores, lengths: softmax_forward(scores)[0] * (masked_softmax(scores, lengths) > 0.0),
    ),
    ("Padding is not masked.", lambda scores, lengths: softmax_forward(scores)[0]),
    (
        "Masked scores are set to 0, and exp(0) = 1 still counts. Set them to -inf, whose exponential is 0.",
        lambda scores, lengths: softmax_forward(
            np.where(np.arange(scores.shape[-1]) < lengths[:, None, None], scores, 0.0)
        )[0],
    ),
    (
        "The mask ends one key too late: with lengths[b] words the last one stands at lengths[b] - 1.",
        lambda scores, lengths: masked_softmax(scores, lengths, extra=1),
    ),
)

# -- 5 norm_place -----------------------------------------------------------------------------------------------------


def block_of(place, gamma):
    """A residual block with its norm in this place. What it is named says nothing."""

    def norm(x):
        return layer_norm_forward(x, np.full(x.shape[-1], gamma), np.zeros(x.shape[-1]))[0]

    def block(x, sublayer):
        if place == "post":
            return norm(x + sublayer(x))
        return x + (sublayer(norm(x)) if place == "pre" else norm(sublayer(x)))

    return block


def norm_place_inputs(rng):
    return [(block_of(place, gamma), 16) for place, gamma in (("post", 1.0), ("pre", 1.5), ("branch", 0.5))]


def norm_place(block, d_model, behind_post=None):
    x = 3.0 + 2.0 * np.random.default_rng(1).standard_normal((4, d_model))
    added = [block(x, lambda y, factor=factor: factor * y) - x for factor in (0.0, 1.0, 5.0)]
    if np.abs(added[0]).max() > 1e-3:
        return "post"
    return behind_post or ("pre" if added[2].std() > 2.0 * added[1].std() else "branch")


NORM_PLACE = cage(
    "norm_place",
    norm_place_inputs,
    lambda block, d_model: norm_place(block, d_model),
    "the norm after the sum, before the sub-layer, and after the sub-layer, with three values of gamma",
    (
        'The answer is "post" for every block. That is what the text says; two of the three differ.',
        lambda block, d_model: "post",
    ),
    (
        '"branch" is taken for "pre". A sub-layer that returns zeros or its input tells post-norm from the other two, '
        "and no more. Let it multiply by a factor: a norm after it undoes that.",
        lambda block, d_model: norm_place(block, d_model, "pre"),
    ),
    (
        '"pre" is taken for "branch". With a sub-layer that returns its input both add the same. Let it multiply by a '
        "factor.",
        lambda block, d_model: norm_place(block, d_model, "branch"),
    ),
    (
        '"pre" and "branch" are exchanged: a norm after the sub-layer undoes its factor, one before it does not.',
        lambda block, d_model: {"post": "post", "pre": "branch", "branch": "pre"}[norm_place(block, d_model)],
    ),
)

# -- 6 shared_masks ---------------------------------------------------------------------------------------------------


class DroppingLayer:
    """x plus three sub-layers, each dropped by the mask that ``pattern`` gives it; new masks in every call."""

    def __init__(self, pattern, p_drop, rng):
        self.pattern, self.p_drop, self.rng = pattern, p_drop, rng

    def __call__(self, x, sublayers):
        masks = self.rng.random((3, *x.shape)) >= self.p_drop
        for i, sublayer in zip(self.pattern, sublayers, strict=True):
            x = x + sublayer(x) * masks[i] / (1.0 - self.p_drop)
        return x


def shared_masks_inputs(rng):
    for pattern, p_drop in (((0, 0, 0), 0.25), ((0, 1, 2), 0.5), ((0, 0, 1), 0.2), ((0, 1, 0), 0.4), ((0, 1, 1), 0.3)):
        yield DroppingLayer(pattern, p_drop, np.random.default_rng(rng.integers(1000))), (6, 20), p_drop


def stayed(layer, shape, p_drop, values=(1.0, 2.0, 4.0)):
    """The sum of what stayed of three sub-layers that return these values: with 1, 2 and 4 it says which did."""
    sublayers = [lambda x, value=value: np.full(x.shape, value) for value in values]
    return np.rint(layer(np.zeros(shape), sublayers) * (1.0 - p_drop)).astype(int)


def equal_pairs(layer, shape, p_drop, pairs):
    code = stayed(layer, shape, p_drop)
    return sum(bool(((code >> i & 1) == (code >> j & 1)).all()) for i, j in pairs)


SHARED_MASKS = cage(
    "shared_masks",
    shared_masks_inputs,
    lambda layer, shape, p_drop: {0: 3, 1: 2, 3: 1}[equal_pairs(layer, shape, p_drop, combinations(range(3), 2))],
    "layers with one, two and three masks, shared by neighbors and by the first and the last",
    (
        "Only neighbors are compared: the first and the third sub-layer may share a mask too.",
        lambda layer, shape, p_drop: 3 - equal_pairs(layer, shape, p_drop, ((0, 1), (1, 2))),
    ),
    (
        "All three sub-layers returned the same number, so a sum says how many of them stayed and not which: two "
        "masks look like three.",
        lambda layer, shape, p_drop: len(np.unique(stayed(layer, shape, p_drop, (1.0, 1.0, 1.0)))) - 1,
    ),
    (
        "The answer is always 3. If you compare masks of several calls: each call has new ones, so they always differ. "
        "Distinguish all three in one call.",
        lambda layer, shape, p_drop: 3,
    ),
    ("The answer is always 1, but some of these layers have two masks or three.", lambda layer, shape, p_drop: 1),
)

# -- 7 scores ---------------------------------------------------------------------------------------------------------


def scores_inputs(rng):
    for length, d_model, n_heads in ((2, 4, 2), (3, 12, 3), (5, 24, 4)):
        yield *(rng.standard_normal(s) for s in ((length, d_model), (d_model, d_model), (d_model, d_model))), n_heads


def scores_with(divisor=lambda d_k, n_heads: math.sqrt(d_k), interleaved=False):
    def scores(x, w_q, w_k, n_heads):
        split = (x.shape[0], -1, n_heads) if interleaved else (x.shape[0], n_heads, -1)
        order = (2, 0, 1) if interleaved else (1, 0, 2)
        q, k = ((x @ w).reshape(split).transpose(order) for w in (w_q, w_k))  # (H, T, d_k)
        return q @ k.swapaxes(-1, -2) / divisor(q.shape[-1], n_heads)

    return scores


def cut_words(x, w_q, w_k, n_heads):
    q, k = ((x @ w).reshape(n_heads, len(x), -1) for w in (w_q, w_k))
    return q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])


SCORES = cage(
    "scores",
    scores_inputs,
    scores_with(),
    "two, three and four heads",
    (
        "sqrt(d_model) where sqrt(d_k) belongs: a score is a sum of d_k products, the width of one head.",
        scores_with(lambda d_k, n_heads: math.sqrt(d_k * n_heads)),
    ),
    ("The scale 1 / sqrt(d_k) is missing.", scores_with(lambda d_k, n_heads: 1.0)),
    ("d_k where its square root belongs.", scores_with(lambda d_k, n_heads: d_k)),
    (
        "The heads are interleaved: head i must own d_k neighboring columns. Reshape to (T, n_heads, d_k).",
        scores_with(interleaved=True),
    ),
    ("The words are cut, not the columns: reshape to (T, n_heads, d_k), then bring the heads to the front.", cut_words),
    (
        "Queries and keys are exchanged: row t must hold the scores of query t.",
        lambda x, w_q, w_k, n_heads: scores_with()(x, w_k, w_q, n_heads),
    ),
)
