"""Exercises of the bug zoo: eight layers to mend, and two to tell apart by measurement alone."""

from __future__ import annotations

import math

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.config import BOS, EOS, PAD
from minitransformer.ops.cross_entropy import cross_entropy_forward
from minitransformer.ops.layer_norm import layer_norm_forward
from minitransformer.ops.softmax import log_softmax_forward, softmax_backward, softmax_forward
from minitransformer.optim import learning_rate
from minitransformer.text import pad_batch


def softmax_of(x, mask=None):
    return softmax_forward(x, mask=mask)[0]


def padded_targets(rng, shape, vocab_size):
    """Random targets with padding at the end of each row; the last row has none."""
    targets = rng.integers(3, vocab_size, shape)
    for row in targets[:-1]:
        row[rng.integers(1, shape[1]) :] = PAD
    return targets


# -- softmax_gradient -------------------------------------------------------------------------------------------------


def softmax_gradient_inputs(rng):
    for shape in ((2, 2, 3), (5, 3, 4)):
        yield rng.standard_normal(shape), softmax_of(2 * rng.standard_normal(shape))


def softmax_gradient(grad_y, y):
    return softmax_backward(grad_y, (y,))[0]


SOFTMAX_GRADIENT = Exercise(
    "bug_zoo.softmax_gradient",
    softmax_gradient_inputs,
    reference=softmax_gradient,
    tested="batches of two and of five, against the engine's softmax_backward",
    mistakes=(
        Mistake(
            "Too small by the batch size: a mean over the batch belongs to the loss, once, and no layer knows of it.",
            lambda grad_y, y: softmax_gradient(grad_y, y) / len(y),
        ),
        Mistake(
            "Too small by the number of rows: each row is a softmax by itself, and nothing is averaged.",
            lambda grad_y, y: softmax_gradient(grad_y, y) / (y.size // y.shape[-1]),
        ),
        Mistake(
            "The mean term is missing: raising one probability lowers the others.",
            lambda grad_y, y: y * grad_y,
        ),
        Mistake(
            "The sum runs over the whole array; it belongs to one row, axis=-1.",
            lambda grad_y, y: y * (grad_y - (grad_y * y).sum()),
        ),
        Mistake(
            "In the sum grad_y must be weighted by y; here it is a plain mean.",
            lambda grad_y, y: y * (grad_y - grad_y.mean(axis=-1, keepdims=True)),
        ),
    ),
)

# -- schedule ---------------------------------------------------------------------------------------------------------


def schedule_inputs(rng):
    for shapes, step, d_model, warmup in (((2, 3), 3, 4, 10), ((1, 2, 3), 20, 16, 5), ((2, 2, 2), 5, 64, 6)):
        parameters, gradients = ([rng.standard_normal(n) for n in shapes] for _ in range(2))
        yield parameters, gradients, step, d_model, warmup


def updated(sign=-1.0, advance=1, per_tensor=False, counted=1):
    """One update with what each mistake does otherwise."""

    def update(parameters, gradients, step, d_model, warmup):
        changed = []
        for i, (w, g) in enumerate(zip(parameters, gradients, strict=True)):
            place = step + advance + (i if per_tensor else 0)
            changed.append(w + sign * learning_rate(place, d_model, warmup) * g)
        return changed, step + (len(parameters) if per_tensor else counted)

    return update


SCHEDULE = Exercise(
    "bug_zoo.schedule",
    schedule_inputs,
    reference=lambda parameters, gradients, step, d_model, warmup: updated()(
        parameters, gradients, step, d_model, warmup
    ),
    tested="two and three tensors, before, at and after the end of the warm-up",
    mistakes=(
        Mistake(
            "The step is counted once per tensor; one update is one step, and all tensors share its rate.",
            updated(per_tensor=True),
        ),
        Mistake("The rate is that of the update before: count the step first, from 1.", updated(advance=0)),
        Mistake("The step is not counted: the next update would use this rate again.", updated(counted=0)),
        Mistake("The gradient is added; it points uphill, and the loss must fall.", updated(sign=1.0)),
        Mistake(
            "The step is counted by the number of tensors, although the rate is right for this update.",
            lambda parameters, gradients, step, d_model, warmup: updated(counted=len(parameters))(
                parameters, gradients, step, d_model, warmup
            ),
        ),
    ),
)

# -- dropout ----------------------------------------------------------------------------------------------------------


def dropout_inputs(rng):
    for shape, p_drop, training in (((2, 3), 0.4, True), ((2, 3), 0.4, False), ((4, 5), 0.1, True)):
        keep = rng.random(shape) >= p_drop
        keep[0, :2] = True, False
        yield rng.standard_normal(shape), keep, p_drop, training


def dropped(x, keep, p_drop):
    return x * keep / (1.0 - p_drop)


DROPOUT = Exercise(
    "bug_zoo.dropout",
    dropout_inputs,
    reference=lambda x, keep, p_drop, training: dropped(x, keep, p_drop) if training else x,
    tested="two probabilities in training, one in evaluation",
    mistakes=(
        Mistake(
            "Dropout is active at inference: without training, x comes back as it is.",
            lambda x, keep, p_drop, training: dropped(x, keep, p_drop),
        ),
        Mistake(
            "What stays is not scaled up: divide by 1 - p_drop, or the mean in training is lower than in evaluation.",
            lambda x, keep, p_drop, training: x * keep if training else x,
        ),
        Mistake(
            "What stays is divided by p_drop; it stays with probability 1 - p_drop.",
            lambda x, keep, p_drop, training: x * keep / p_drop if training else x,
        ),
        Mistake(
            "The factor is there twice: divided by in training, and multiplied by in evaluation.",
            lambda x, keep, p_drop, training: dropped(x, keep, p_drop) if training else x * (1.0 - p_drop),
        ),
        Mistake(
            "The mask is the wrong way round: True in keep means that the value stays.",
            lambda x, keep, p_drop, training: dropped(x, ~keep, p_drop) if training else x,
        ),
        Mistake(
            "The two cases are exchanged: dropout is active at inference and does nothing in training.",
            lambda x, keep, p_drop, training: x if training else dropped(x, keep, p_drop),
        ),
    ),
)

# -- padding_mask -----------------------------------------------------------------------------------------------------


def padding_mask_inputs(rng):
    for lengths, size in (([2], 3), ([4, 1, 3], 4)):
        yield rng.standard_normal((len(lengths), size, size)), np.array(lengths)


def real_keys(scores, lengths, extra=0):
    return (np.arange(scores.shape[-1]) < lengths[:, None] + extra)[:, None, :]  # (B, 1, S)


def softmax_without_guard(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


WRONG_AXIS = (
    "The mask lies on the wrong axis: it hides padded queries (rows), and every real word still reads padding. "
    "It must hide padded keys, the last axis."
)

PADDING_MASK = Exercise(
    "bug_zoo.padding_mask",
    padding_mask_inputs,
    reference=lambda scores, lengths: softmax_of(scores, real_keys(scores, lengths)),
    tested="one sentence, and a batch of three lengths",
    mistakes=(
        Mistake(WRONG_AXIS, lambda scores, lengths: softmax_of(scores, real_keys(scores, lengths).swapaxes(-1, -2))),
        Mistake(
            WRONG_AXIS,
            lambda scores, lengths: softmax_without_guard(
                np.where(real_keys(scores, lengths).swapaxes(-1, -2), scores, -np.inf)
            ),
        ),
        Mistake(
            "The mask is applied after the softmax: rows no longer sum to one, and padding still counts in the sum.",
            lambda scores, lengths: softmax_of(scores) * real_keys(scores, lengths),
        ),
        Mistake("Padding is not masked.", lambda scores, lengths: softmax_of(scores)),
        Mistake(
            "The mask ends one key too late: with lengths[b] words the last one stands at lengths[b] - 1.",
            lambda scores, lengths: softmax_of(scores, real_keys(scores, lengths, extra=1)),
        ),
        Mistake(
            "Masked scores are set to 0, an ordinary score: exp(0) = 1. Use -inf.",
            lambda scores, lengths: softmax_of(np.where(real_keys(scores, lengths), scores, 0.0)),
        ),
    ),
)

# -- norm_place -------------------------------------------------------------------------------------------------------


def block_of(place, gamma):
    """A residual block with its norm in this place. What it is named says nothing."""

    def norm(x):
        return layer_norm_forward(x, np.full(x.shape[-1], gamma), np.zeros(x.shape[-1]))[0]

    def block(x, sublayer):
        if place == "post":
            return norm(x + sublayer(x))
        return x + (sublayer(norm(x)) if place == "pre" else norm(sublayer(x)))

    return block


PLACES = ("post", "pre", "branch")


def changed_by(block, d_model, factor):
    """What a block adds to x if its sub-layer multiplies by ``factor``."""
    x = 3.0 + 2.0 * np.random.default_rng(1).standard_normal((4, d_model))
    return block(x, lambda y: factor * y) - x


def norm_place(block, d_model):
    if np.abs(changed_by(block, d_model, 0.0)).max() > 1e-3:
        return "post"
    ratio = changed_by(block, d_model, 5.0).std() / changed_by(block, d_model, 1.0).std()
    return "pre" if ratio > 2.0 else "branch"


NORM_PLACE = Exercise(
    "bug_zoo.norm_place",
    lambda rng: [(block_of(place, gamma), 16) for place, gamma in zip(PLACES, (1.0, 1.5, 0.5), strict=True)],
    reference=lambda block, d_model: norm_place(block, d_model),
    tested="the norm after the sum, before the sub-layer, and behind the sub-layer, with three values of gamma",
    mistakes=(
        Mistake(
            'The answer is always "post". That is what the text says; these blocks were not measured.',
            lambda block, d_model: "post",
        ),
        Mistake(
            "A sub-layer that returns zeros tells post-norm from the two others, and no more: there the branch adds "
            "nothing, whether the norm stands before it or behind it.",
            lambda block, d_model: "post" if np.abs(changed_by(block, d_model, 0.0)).max() > 1e-3 else "pre",
        ),
        Mistake(
            'With a sub-layer that returns its input, "pre" and "branch" add the same. Let it multiply by a factor.',
            lambda block, d_model: "post" if np.abs(changed_by(block, d_model, 0.0)).max() > 1e-3 else "branch",
        ),
        Mistake(
            '"pre" and "branch" are exchanged: a norm behind the sub-layer undoes its factor, one before it does not.',
            lambda block, d_model: {"post": "post", "pre": "branch", "branch": "pre"}[norm_place(block, d_model)],
        ),
    ),
)

# -- shared_masks -----------------------------------------------------------------------------------------------------


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


def read_masks(layer, shape, p_drop, values=(1.0, 2.0, 4.0)):
    """The three masks, from sub-layers that return 1, 2 and 4: their sum says which of them stayed."""
    sublayers = [lambda x, value=value: np.full(x.shape, value) for value in values]
    code = np.rint(layer(np.zeros(shape), sublayers) * (1.0 - p_drop)).astype(int)
    return [(code >> bit & 1).astype(bool) for bit in range(3)], code


def number_of_masks(masks, pairs=((0, 1), (0, 2), (1, 2))):
    equal = [bool((masks[i] == masks[j]).all()) for i, j in pairs]
    return {0: 3, 1: 2}.get(sum(equal), 1)


def levels(layer, shape, p_drop):
    """The numbers of values seen, when all sub-layers return 1."""
    return len(np.unique(read_masks(layer, shape, p_drop, values=(1.0, 1.0, 1.0))[1])) - 1


SHARED_MASKS = Exercise(
    "bug_zoo.shared_masks",
    shared_masks_inputs,
    reference=lambda layer, shape, p_drop: number_of_masks(read_masks(layer, shape, p_drop)[0]),
    tested="layers with one, two and three masks, shared by neighbours and by the first and the last",
    mistakes=(
        Mistake(
            "Only neighbours are compared: the first and the third sub-layer may share a mask too.",
            lambda layer, shape, p_drop: (
                3
                - sum(
                    bool((masks[i] == masks[i + 1]).all())
                    for masks in [read_masks(layer, shape, p_drop)[0]]
                    for i in range(2)
                )
            ),
        ),
        Mistake(
            "All three sub-layers returned the same number, so a sum says how many of them stayed and not which: two "
            "masks look like three.",
            levels,
        ),
        Mistake(
            "Only the first two sub-layers are compared.",
            lambda layer, shape, p_drop: (
                1 if number_of_masks(read_masks(layer, shape, p_drop)[0], ((0, 1),)) < 3 else 3
            ),
        ),
        Mistake("The answer is always 3; these layers were not measured.", lambda layer, shape, p_drop: 3),
        Mistake("The answer is always 1; these layers were not measured.", lambda layer, shape, p_drop: 1),
    ),
)

# -- scores -----------------------------------------------------------------------------------------------------------


def scores_inputs(rng):
    for length, d_model, n_heads in ((2, 4, 2), (3, 12, 3), (4, 24, 4)):
        yield *(rng.standard_normal(s) for s in ((length, d_model), (d_model, d_model), (d_model, d_model))), n_heads


def scores_with(divisor, interleaved=False):
    """Scores of all heads, divided by ``divisor(d_model, n_heads)``."""

    def scores(x, w_q, w_k, n_heads):
        length, d_model = x.shape
        if interleaved:
            q, k = ((x @ w).reshape(length, -1, n_heads).transpose(2, 0, 1) for w in (w_q, w_k))
        else:
            q, k = ((x @ w).reshape(length, n_heads, -1).swapaxes(0, 1) for w in (w_q, w_k))  # (H, T, d_k)
        return q @ k.swapaxes(-1, -2) / divisor(d_model, n_heads)

    return scores


def root_d_k(d_model, n_heads):
    return math.sqrt(d_model // n_heads)


SCORES = Exercise(
    "bug_zoo.scores",
    scores_inputs,
    reference=lambda x, w_q, w_k, n_heads: scores_with(root_d_k)(x, w_q, w_k, n_heads),
    tested="two, three and four heads",
    mistakes=(
        Mistake(
            "sqrt(d_model) where sqrt(d_k) belongs: a score is a sum of d_k products, the width of one head.",
            scores_with(lambda d_model, n_heads: math.sqrt(d_model)),
        ),
        Mistake("The scale 1 / sqrt(d_k) is missing.", scores_with(lambda d_model, n_heads: 1.0)),
        Mistake("d_k where its square root belongs.", scores_with(lambda d_model, n_heads: d_model // n_heads)),
        Mistake("sqrt(n_heads) where sqrt(d_k) belongs.", scores_with(lambda d_model, n_heads: math.sqrt(n_heads))),
        Mistake(
            "The heads are interleaved: head i must own d_k neighbouring columns. Reshape to (T, n_heads, d_k).",
            scores_with(root_d_k, interleaved=True),
        ),
        Mistake(
            "Queries and keys are exchanged: row t must hold the scores of query t.",
            lambda x, w_q, w_k, n_heads: scores_with(root_d_k)(x, w_k, w_q, n_heads),
        ),
    ),
)

# -- mean_loss --------------------------------------------------------------------------------------------------------


def mean_loss_inputs(rng):
    for batch, length, vocab_size in ((2, 3, 4), (3, 5, 6), (4, 6, 9)):
        yield 2 * rng.standard_normal((batch, length, vocab_size)), padded_targets(rng, (batch, length), vocab_size)


def losses_of(logits, targets):
    """(loss of each position, whether it is real), both (B, T)."""
    log_p = log_softmax_forward(logits)[0]
    return -np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0], targets != PAD


def mean_loss_by(mean):
    return lambda logits, targets: float(mean(*losses_of(logits, targets)))


MEAN_LOSS = Exercise(
    "bug_zoo.mean_loss",
    mean_loss_inputs,
    reference=lambda logits, targets: mean_loss_by(lambda loss, real: loss[real].mean())(logits, targets),
    tested="three batches with rows of different lengths",
    mistakes=(
        Mistake(
            "Padding stands in the mean, above and below: predicting PAD is easy, and the loss looks too good.",
            mean_loss_by(lambda loss, real: loss.mean()),
        ),
        Mistake(
            "Padding is left out of the sum but counted in the divisor: divide by the number of real tokens.",
            mean_loss_by(lambda loss, real: (loss * real).mean()),
        ),
        Mistake(
            "It is a mean of sentence means: a word of a short sentence weighs more. One mean over all real tokens.",
            mean_loss_by(lambda loss, real: ((loss * real).sum(axis=1) / real.sum(axis=1)).mean()),
        ),
        Mistake(
            "The sum is divided by the number of sentences; nats per token need the number of real tokens.",
            mean_loss_by(lambda loss, real: loss[real].sum() / len(loss)),
        ),
        Mistake("It is a sum, not a mean.", mean_loss_by(lambda loss, real: loss[real].sum())),
        Mistake("The sign is wrong: a loss is minus ln p.", mean_loss_by(lambda loss, real: -loss[real].mean())),
    ),
)

# -- smoothed_loss ----------------------------------------------------------------------------------------------------


def smoothed_loss_inputs(rng):
    for n, vocab_size, eps in ((3, 4, 0.2), (6, 7, 0.1), (8, 5, 0.4)):
        targets = rng.integers(3, vocab_size, n)
        targets[n // 2 + 1 :] = PAD
        yield 2 * rng.standard_normal((n, vocab_size)), targets, eps


def smoothed_by(combine):
    """``combine(nll, mean of -ln p over the vocabulary, real, eps, target's share)`` of rows."""

    def loss(logits, targets, eps):
        nll, real = losses_of(logits, targets)
        return float(combine(nll, -log_softmax_forward(logits)[0].mean(axis=-1), real, eps, logits.shape[-1]).sum())

    return loss


SMOOTHED_LOSS = Exercise(
    "bug_zoo.smoothed_loss",
    smoothed_loss_inputs,
    reference=lambda logits, targets, eps: float(
        cross_entropy_forward(logits, targets=targets, label_smoothing=eps)[0][0]
    ),
    tested="three sizes and three values of eps, against the engine's cross_entropy",
    mistakes=(
        Mistake(
            "The smoothing runs over padding: its share eps / V of every word is asked for at positions without one.",
            smoothed_by(lambda nll, uniform, real, eps, v: (1 - eps) * nll * real + eps * uniform),
        ),
        Mistake(
            "Padding counts in both parts: multiply each position's loss by whether it is real.",
            smoothed_by(lambda nll, uniform, real, eps, v: (1 - eps) * nll + eps * uniform),
        ),
        Mistake(
            "The smoothing is missing: this is the plain cross-entropy.",
            smoothed_by(lambda nll, uniform, real, eps, v: nll * real),
        ),
        Mistake(
            "The target keeps its full share: q must sum to one, (1 - eps) + V * eps / V.",
            smoothed_by(lambda nll, uniform, real, eps, v: (nll + eps * uniform) * real),
        ),
        Mistake(
            "eps is shared among the V - 1 other words; sec. 5.4 cites the form that gives all V words eps / V.",
            smoothed_by(
                lambda nll, uniform, real, eps, v: ((1 - eps) * nll + eps * (uniform * v - nll) / (v - 1)) * real
            ),
        ),
        Mistake(
            "Every other word gets eps, and not eps / V: a mean over the vocabulary, not a sum.",
            smoothed_by(lambda nll, uniform, real, eps, v: ((1 - eps) * nll + eps * uniform * v) * real),
        ),
    ),
)

# -- shifted_target ---------------------------------------------------------------------------------------------------


def shifted_target_inputs(rng):
    for lengths in ((3,), (2, 4), (5, 1, 3)):
        yield ([rng.integers(4, 20, length).tolist() for length in lengths],)


def padded(rows):
    width = max(len(row) for row in rows)
    return np.array([[*row, *[PAD] * (width - len(row))] for row in rows])


def pairs_by(read, said):
    return lambda sequences: (padded([read(s) for s in sequences]), padded([said(s) for s in sequences]))


def end_marks_in_the_last_column(sequences):
    rows = padded(sequences)
    marks = np.ones((len(rows), 1), dtype=int)
    return np.hstack([BOS * marks, rows]), np.hstack([rows, EOS * marks])


def pairs(sequences):
    batch = pad_batch(sequences, sequences)
    return batch.tgt_in, batch.tgt_out


SHIFTED_TARGET = Exercise(
    "bug_zoo.shifted_target",
    shifted_target_inputs,
    reference=lambda sequences: pairs(sequences),
    tested="batches of one, two and three sentences, against the engine's pad_batch",
    mistakes=(
        Mistake(
            "The target is not shifted: at each position the decoder must say the token that it reads there.",
            pairs_by(lambda s: [BOS, *s], lambda s: [BOS, *s]),
        ),
        Mistake(
            "The target is not shifted, and BOS is missing: the decoder must say what it reads.",
            pairs_by(lambda s: [*s, EOS], lambda s: [*s, EOS]),
        ),
        Mistake(
            "The target is shifted by two: at BOS the decoder must say the first word, and here it says the second.",
            pairs_by(lambda s: [BOS, *s], lambda s: [*s[1:], EOS]),
        ),
        Mistake(
            "EOS is missing: the decoder would never learn to stop.",
            pairs_by(lambda s: [BOS, *s[:-1]], lambda s: s),
        ),
        Mistake(
            "EOS stands behind the padding; it follows the last word of its own sentence.",
            end_marks_in_the_last_column,
        ),
        Mistake("The two arrays are exchanged: (read, said).", lambda sequences: pairs(sequences)[::-1]),
    ),
)

EXERCISES = (
    SOFTMAX_GRADIENT,
    SCHEDULE,
    DROPOUT,
    PADDING_MASK,
    NORM_PLACE,
    SHARED_MASKS,
    SCORES,
    MEAN_LOSS,
    SMOOTHED_LOSS,
    SHIFTED_TARGET,
)
