"""Bug zoo, cages 2, 8 and 10: schedule, mean loss, targets."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.lesson_09 import ids_as_floats
from minitransformer.config import BOS, EOS, PAD
from minitransformer.ops.softmax import log_softmax_forward
from minitransformer.optim import learning_rate
from minitransformer.text import pad_batch


def cage(name, inputs, reference, tested, *mistakes, properties=(), parts=()):
    """An exercise from pairs (message, wrong function)."""
    pairs = tuple(Mistake(*pair) for pair in mistakes)
    return Exercise(f"bug_zoo.{name}", inputs, reference, tested, pairs, properties, parts=parts)


# -- 2 schedule -------------------------------------------------------------------------------------------------------


def schedule_inputs(rng):
    for shapes, step, d_model, warmup in (((2, 3), 3, 8, 10), ((1, 2, 3), 20, 16, 5), ((2, 2, 2), 5, 64, 6)):
        parameters, gradients = ([rng.standard_normal(n) for n in shapes] for _ in range(2))
        yield parameters, gradients, step, d_model, warmup


def updated(sign=-1.0, advance=1, counted=1, per_tensor=False):
    def update(parameters, gradients, step, d_model, warmup):
        rates = [learning_rate(step + advance + per_tensor * i, d_model, warmup) for i in range(len(parameters))]
        changed = [w + sign * rate * g for w, g, rate in zip(parameters, gradients, rates, strict=True)]
        return changed, step + (len(parameters) if per_tensor else counted)

    return update


SCHEDULE = cage(
    "schedule",
    schedule_inputs,
    updated(),
    "two and three tensors, before, at and after the end of the warm-up",
    (
        "The step is counted once per tensor; one update is one step, and all tensors share its rate.",
        updated(per_tensor=True),
    ),
    ("The rate is that of the update before: count the step first, from 1.", updated(advance=0)),
    ("The step is not counted: the next update would use this rate again.", updated(counted=0)),
    ("The gradient is added; it points uphill, and the loss must fall.", updated(sign=1.0)),
    parts=("parameters", "step"),
)

# -- 8 mean_loss ------------------------------------------------------------------------------------------------------


def mean_loss_inputs(rng):
    for batch, length, vocab_size in ((2, 3, 4), (3, 5, 6), (4, 6, 9)):
        targets = rng.integers(3, vocab_size, (batch, length))
        for row in targets[:-1]:
            row[rng.integers(1, length) :] = PAD
        yield 2 * rng.standard_normal((batch, length, vocab_size)), targets


def losses_of(logits, targets):
    """(loss of each position, whether it is real), both of the targets' shape."""
    log_p = log_softmax_forward(logits)[0]
    return -np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0], targets != PAD


def mean_loss_by(mean):
    return lambda logits, targets: float(mean(*losses_of(logits, targets)))


MEAN_LOSS = cage(
    "mean_loss",
    mean_loss_inputs,
    mean_loss_by(lambda loss, real: loss[real].mean()),
    "three batches with rows of different lengths",
    (
        "Padding stands in the mean, in sum and divisor: predicting PAD is easy, and the loss looks too good.",
        mean_loss_by(lambda loss, real: loss.mean()),
    ),
    (
        "Padding is left out of the sum but counted in the divisor: divide by the number of real tokens.",
        mean_loss_by(lambda loss, real: (loss * real).mean()),
    ),
    (
        "It is a mean of sentence means: a word of a short sentence weighs more. One mean over all real tokens.",
        mean_loss_by(lambda loss, real: ((loss * real).sum(axis=1) / real.sum(axis=1)).mean()),
    ),
    (
        "The sum is divided by the number of sentences; nats per token need the number of real tokens.",
        mean_loss_by(lambda loss, real: loss[real].sum() / len(loss)),
    ),
    (
        "This is the perplexity; the loss itself, in nats, is asked for.",
        mean_loss_by(lambda loss, real: np.exp(loss[real].mean())),
    ),
)

# -- 9 shifted_target -------------------------------------------------------------------------------------------------


def shifted_target_inputs(rng):
    for lengths in ((3,), (2, 4), (5, 1, 3)):
        yield ([rng.integers(4, 20, length).tolist() for length in lengths],)


def padded(rows):
    width = max(len(row) for row in rows)
    return np.array([[*row, *[PAD] * (width - len(row))] for row in rows])


def pairs_by(read, said):
    return lambda sequences: (padded([read(s) for s in sequences]), padded([said(s) for s in sequences]))


def end_marks_in_the_last_column(sequences):
    tgt_in, tgt_out = pairs_by(lambda s: [BOS, *s], lambda s: s)(sequences)
    return tgt_in, np.hstack([tgt_out, np.full((len(tgt_out), 1), EOS)])


def last_column_cut_off(sequences):
    tgt_in, _ = pairs_by(lambda s: [BOS, *s, EOS], lambda s: s)(sequences)
    return tgt_in[:, :-1], pairs(sequences)[1]


def pairs(sequences):
    batch = pad_batch(sequences, sequences)
    return batch.tgt_in, batch.tgt_out


SHIFTED_TARGET = cage(
    "shifted_target",
    shifted_target_inputs,
    pairs,
    "batches of one, two and three sentences, against the engine's pad_batch",
    (
        "The target is not shifted: at each position the decoder must say the token that it reads there.",
        pairs_by(lambda s: [BOS, *s], lambda s: [BOS, *s]),
    ),
    (
        "The target is shifted by two: at BOS the decoder must say the first word, and here it says the second.",
        pairs_by(lambda s: [BOS, *s], lambda s: [*s[1:], EOS]),
    ),
    ("EOS is missing: the decoder would never learn to stop.", pairs_by(lambda s: [BOS, *s[:-1]], lambda s: s)),
    ("EOS is missing: the decoder would never learn to stop.", pairs_by(lambda s: [BOS, *s], lambda s: [*s, PAD])),
    ("EOS comes after the padding; it must follow the last word of its own sentence.", end_marks_in_the_last_column),
    (
        "The decoder reads EOS in the shorter sentences: cutting off the last column takes it from the longest alone. "
        "Nothing is said after EOS, so it is never read.",
        last_column_cut_off,
    ),
    ("The two arrays are exchanged: (read, said).", lambda sequences: pairs(sequences)[::-1]),
    properties=(ids_as_floats,),
    parts=("tgt_in", "tgt_out"),
)
