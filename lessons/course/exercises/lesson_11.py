"""Exercises of lesson 11: token batches, dropout, Adam, the learning rate."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.adam import ADAM_STEP, DISTANCES
from course.exercises.dropout import DROPOUT
from minitransformer.optim import learning_rate

# -- schedule ---------------------------------------------------------------------------------------------------------


def schedule_inputs(rng):
    return [(1, 4, 4), (3, 16, 10), (10, 16, 10), (11, 16, 10), (4000, 512, 4000), (100_000, 1024, 4000)]


SCHEDULE = Exercise(
    "11_training.schedule",
    schedule_inputs,
    reference=lambda step, d_model, warmup: learning_rate(step, d_model, warmup),
    tested="updates before, at and after the end of the warm-up, against the engine's learning_rate",
    mistakes=(
        Mistake(
            "The larger of the two is taken, so the rate would start high; eq. 3 has min.",
            lambda step, d_model, warmup: d_model**-0.5 * max(step**-0.5, step * warmup**-1.5),
        ),
        Mistake(
            "d_model is missing: a wider model takes smaller steps.",
            lambda step, d_model, warmup: min(step**-0.5, step * warmup**-1.5),
        ),
        Mistake(
            "The root of d_model multiplies; it must divide.",
            lambda step, d_model, warmup: d_model**0.5 * min(step**-0.5, step * warmup**-1.5),
        ),
        Mistake(
            "The rise is step / warmup, up to 1. With warmup^-1.5 the two branches meet at step = warmup.",
            lambda step, d_model, warmup: d_model**-0.5 * min(step**-0.5, step / warmup),
        ),
        Mistake(
            "The rise has warmup^-0.5 where warmup^-1.5 belongs.",
            lambda step, d_model, warmup: d_model**-0.5 * min(step**-0.5, step * warmup**-0.5),
        ),
        Mistake(
            "The fall is missing: after the warm-up the rate must go down as step^-0.5.",
            lambda step, d_model, warmup: d_model**-0.5 * min(warmup**-0.5, step * warmup**-1.5),
        ),
        Mistake(
            "The first update has number 1; here it is taken for 2.",
            lambda step, d_model, warmup: learning_rate(step + 1, d_model, warmup),
        ),
    ),
)

# -- accumulated ------------------------------------------------------------------------------------------------------


def accumulated_inputs(rng):
    for tokens, n in (([3, 1], 2), ([40, 25, 10], 4), ([7], 3)):
        yield rng.standard_normal((len(tokens), n)), np.array(tokens)


ACCUMULATED = Exercise(
    "11_training.accumulated",
    accumulated_inputs,
    reference=lambda gradients, n_tokens: (gradients * n_tokens[:, None]).sum(axis=0) / n_tokens.sum(),
    tested="two, three and one micro-batches of unequal sizes, against the mean over all tokens",
    mistakes=(
        Mistake(
            "Each micro-batch counts the same: the tokens of a small one then weigh more than those of a large one.",
            lambda gradients, n_tokens: gradients.mean(axis=0),
        ),
        Mistake(
            "The gradients are added, as if each were a sum over tokens already: too large.",
            lambda gradients, n_tokens: gradients.sum(axis=0),
        ),
        Mistake(
            "The sum over all tokens is not divided by their number.",
            lambda gradients, n_tokens: (gradients * n_tokens[:, None]).sum(axis=0),
        ),
        Mistake(
            "The mean over tokens is divided by the number of micro-batches: too small.",
            lambda gradients, n_tokens: (gradients * n_tokens[:, None]).sum(axis=0) / n_tokens.sum() / len(n_tokens),
        ),
        Mistake(
            "The means are added and divided by the number of tokens: they are means already.",
            lambda gradients, n_tokens: gradients.sum(axis=0) / n_tokens.sum(),
        ),
    ),
)

# -- token_batches ----------------------------------------------------------------------------------------------------


def token_batches_inputs(rng):
    yield np.array([3, 1, 2]), 4
    yield np.array([5, 2, 2, 4, 3, 3, 1]), 6
    yield rng.integers(1, 30, 40), 60


def cut_by(fits, order=lambda lengths: np.argsort(lengths, kind="stable")):
    """The number of each sentence's batch, by a rule ``fits(lengths of a batch, budget)``."""

    def batches_of(lengths, budget):
        numbers, batch, number = np.zeros(len(lengths), dtype=int), [], 0
        for place in order(lengths):
            if batch and not fits([*batch, lengths[place]], budget):
                batch, number = [], number + 1
            batch.append(lengths[place])
            numbers[place] = number
        return numbers

    return batches_of


def rectangle_fits(batch, budget):
    return len(batch) * max(batch) <= budget


def too_large(function, lengths, budget):
    """The first batch whose rectangle exceeds the budget."""
    numbers = function(lengths, budget)
    for number in np.unique(numbers):
        batch = lengths[numbers == number]
        if not rectangle_fits(batch, budget):
            return (
                f"Batch {number} has {len(batch)} sentences, the longest of {batch.max()} tokens: a rectangle of "
                f"{len(batch) * batch.max()}, and the budget is {budget}."
            )
    return None


TOKEN_BATCHES = Exercise(
    "11_training.token_batches",
    token_batches_inputs,
    reference=cut_by(rectangle_fits),
    tested="three, seven and forty sentences, with equal lengths among them",
    mistakes=(
        Mistake(
            "Real tokens are counted. The rectangle is what is computed: sentences times the longest.",
            cut_by(lambda batch, budget: sum(batch) <= budget),
        ),
        Mistake(
            "A rectangle of just the budget is allowed; here the batch is cut before it.",
            cut_by(lambda batch, budget: len(batch) * max(batch) < budget),
        ),
        Mistake(
            "The cut comes one sentence late: ask before the sentence is added.",
            cut_by(lambda batch, budget: len(batch[:-1]) * max(batch[:-1]) <= budget),
        ),
        Mistake(
            "The sentences are not sorted by length, so short ones are padded to long ones.",
            cut_by(rectangle_fits, order=lambda lengths: np.arange(len(lengths))),
        ),
        Mistake(
            "The longest come first; sort from short to long.",
            cut_by(rectangle_fits, order=lambda lengths: np.argsort(-lengths, kind="stable")),
        ),
        Mistake(
            "The numbers stand in the order of the sorted sentences; that of sentence i belongs at place i.",
            lambda lengths, budget: cut_by(rectangle_fits)(np.sort(lengths), budget),
        ),
        Mistake("Batches are counted from 0, and here from 1.", lambda *inputs: cut_by(rectangle_fits)(*inputs) + 1),
        Mistake(
            "Each sentence has a batch of its own: fill a batch before the next begins.",
            cut_by(lambda batch, budget: False),
        ),
        Mistake("All sentences are in one batch.", lambda lengths, budget: np.zeros(len(lengths), dtype=int)),
    ),
    properties=(too_large,),
)

EXERCISES = (DROPOUT, SCHEDULE, ADAM_STEP, ACCUMULATED, DISTANCES, TOKEN_BATCHES)
