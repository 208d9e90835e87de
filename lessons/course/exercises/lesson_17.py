"""Exercises of lesson 17: several ranks."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.all_reduce import ORDERED_SUM, RING_STEP

# -- clipped ----------------------------------------------------------------------------------------------------------


def clipped_inputs(rng):
    for n_ranks, length, norm in ((2, 2, 1.5), (3, 4, 0.3), (4, 5, 4.0)):  # the norm's square is shorter, and longer
        sums, n_tokens = rng.standard_normal((n_ranks, length)), rng.integers(3, 40, n_ranks)
        sums *= norm * n_tokens.sum() / np.linalg.norm(sums.sum(axis=0))
        for factor in (0.5, 2.0, 2.0 * n_tokens.sum()):  # the last is longer than the sum, too
            yield sums, n_tokens, factor * norm


def shortened(grad, max_norm):
    return grad * min(1.0, max_norm / np.linalg.norm(grad))


def mean_of_all(sums, n_tokens):
    return sums.sum(axis=0) / n_tokens.sum()


def mean_of_means(sums, n_tokens):
    return (sums / n_tokens[:, None]).mean(axis=0)


CLIPPED = Exercise(
    "17_ranks.clipped",
    clipped_inputs,
    reference=lambda sums, n_tokens, max_norm: shortened(mean_of_all(sums, n_tokens), max_norm),
    tested="two to four ranks with 3 to 39 tokens each, gradients that are too long and others that are not",
    mistakes=(
        Mistake(
            "This is the mean of the ranks' means: a rank with few tokens counts as much as one with many.",
            lambda sums, n_tokens, max_norm: shortened(mean_of_means(sums, n_tokens), max_norm),
        ),
        Mistake(
            "Each rank has clipped its own gradient before the sum: the norm that counts is that of the whole.",
            lambda sums, n_tokens, max_norm: sum(shortened(grad / n_tokens.sum(), max_norm) for grad in sums),
        ),
        Mistake(
            "Each rank has clipped its own mean, and these were averaged: one norm, of the whole gradient, counts.",
            lambda sums, n_tokens, max_norm: np.mean(
                [shortened(grad / n, max_norm) for grad, n in zip(sums, n_tokens, strict=True)], axis=0
            ),
        ),
        Mistake(
            "The sum is clipped before it is divided by the tokens: the limit is for the mean.",
            lambda sums, n_tokens, max_norm: shortened(sums.sum(axis=0), max_norm) / n_tokens.sum(),
        ),
        Mistake(
            "The sum is not divided by the number of tokens.",
            lambda sums, n_tokens, max_norm: shortened(sums.sum(axis=0), max_norm),
        ),
        Mistake(
            "The sum is divided by the number of ranks; divide by the tokens of all ranks.",
            lambda sums, n_tokens, max_norm: shortened(sums.mean(axis=0), max_norm),
        ),
        Mistake(
            "A gradient that is short enough stays as it is; here it is made longer.",
            lambda sums, n_tokens, max_norm: (
                mean_of_all(sums, n_tokens) * max_norm / np.linalg.norm(mean_of_all(sums, n_tokens))
            ),
        ),
        Mistake(
            "The norm is the root of the sum of squares; here the root is missing.",
            lambda sums, n_tokens, max_norm: (
                mean_of_all(sums, n_tokens) * min(1.0, max_norm / (mean_of_all(sums, n_tokens) ** 2).sum())
            ),
        ),
        Mistake("Nothing is clipped.", lambda sums, n_tokens, max_norm: mean_of_all(sums, n_tokens)),
        Mistake(
            "Each number is clipped by itself, which turns the gradient; clip the norm.",
            lambda sums, n_tokens, max_norm: np.clip(mean_of_all(sums, n_tokens), -max_norm, max_norm),
        ),
    ),
    rtol=1e-4,  # PyTorch adds 1e-6 to the norm
)

# -- largest ----------------------------------------------------------------------------------------------------------


def largest_inputs(rng):
    yield 4.0, 2e9, 1e9, 0.0, 0.5  # two ranks have exactly the half
    yield 3.2, 252e6, 10e9, 0.0, 0.8
    yield 3.2, 252e6, 1e9, 2e-5, 0.8
    yield 3.2, 252e6, 100e9, 1e-4, 0.9
    yield 3.2, 252e6, 100e9, 0.0, 0.3  # 1,024, and there are more
    yield 0.5, 1e7, 10e9, 1e-3, 0.9
    yield 1.0, 4e8, 0.125e9, 0.0, 0.9


def largest_with(
    share=lambda n: 2 * (n - 1) / n, messages=lambda n: 2 * (n - 1), ideal=lambda n: 1 / n, strict=False, last=0
):
    """The exercise with another share of the bytes, number of messages, time of an ideal update, or limit."""

    def largest(compute, n_bytes, bandwidth, latency, efficiency):
        def is_enough(n):
            seconds = compute / n + share(n) * n_bytes / bandwidth + messages(n) * latency
            reached = compute * ideal(n) / seconds
            return reached > efficiency if strict else reached >= efficiency

        return max((n for n in range(1, 1025) if is_enough(n)), default=1) + last

    return largest


LARGEST = Exercise(
    "17_ranks.largest",
    largest_inputs,
    reference=largest_with(),
    tested="seven machines: from a network on which a second rank is one too many to a link that serves all 1,024",
    mistakes=(
        Mistake(
            "Half of the bytes are missing: each slice goes round twice, to be summed and to be handed out.",
            largest_with(share=lambda n: (n - 1) / n),
        ),
        Mistake(
            "The whole vector is sent in each step; a step of the ring sends one slice, an n-th.",
            largest_with(share=lambda n: 2 * (n - 1)),
        ),
        Mistake("The bytes are 2 (n - 1) / n of the vector, not twice it.", largest_with(share=lambda n: 2.0)),
        Mistake("The bytes are 2 (n - 1) / n of the vector, not all of it.", largest_with(share=lambda n: 1.0)),
        Mistake("The latency of the steps is missing.", largest_with(messages=lambda n: 0)),
        Mistake("The latency is paid in each of the 2 (n - 1) steps, not once.", largest_with(messages=lambda n: 1)),
        Mistake(
            "This is one half of the ring; both halves take n - 1 steps each, with a slice in each step.",
            largest_with(share=lambda n: (n - 1) / n, messages=lambda n: n - 1),
        ),
        Mistake("One rank too many: at that number the efficiency is already lower.", largest_with(last=1)),
        Mistake("One rank too few: at the next number the efficiency is still reached.", largest_with(strict=True)),
        Mistake(
            "This compares with one rank's whole time: the efficiency is the speed-up divided by the ranks.",
            largest_with(ideal=lambda n: 1.0),
        ),
    ),
)

# -- diverged ---------------------------------------------------------------------------------------------------------


def diverged_inputs(rng):
    for n_ranks, n_updates, first, rank, sign in ((3, 4, 2, 1, -1), (4, 6, 3, 0, 1), (5, 5, 1, 4, -1), (4, 7, 7, 2, 1)):
        checksums = np.repeat(rng.integers(10**6, 10**9, (n_updates, 1)), n_ranks, axis=1)
        checksums[first - 1 :, rank] += sign * rng.integers(1, 1000, n_updates - first + 1)
        if first + 1 < n_updates:
            checksums[-1] += np.arange(n_ranks)  # from then on no two agree
        yield (checksums,)


def first_disagreement(checksums):
    return next(i for i, row in enumerate(checksums) if len(set(row.tolist())) > 1)


def odd_one(row):
    values = row.tolist()
    return min(range(len(values)), key=lambda rank: values.count(values[rank]))


def one_of_most(row):
    values = row.tolist()
    return max(range(len(values)), key=lambda rank: values.count(values[rank]))


def diverged_with(rank=odd_one, update=lambda first: first + 1):
    """The first update without agreement, and of its row the rank, or what a mistake takes for them."""

    def diverged(checksums):
        first = first_disagreement(checksums)
        return update(first), rank(checksums[first])

    return diverged


DIVERGED = Exercise(
    "17_ranks.diverged",
    diverged_inputs,
    reference=diverged_with(),
    tested="three to five ranks; the odd one is the first, the last and one between, at the first update and the last",
    parts=("update", "rank"),
    mistakes=(
        Mistake("Updates are counted from 1.", diverged_with(update=lambda first: first)),
        Mistake("Ranks are counted from 0.", diverged_with(lambda row: odd_one(row) + 1)),
        Mistake(
            "All are compared with rank 0; if rank 0 is the odd one, the others are blamed.",
            diverged_with(lambda row: int(np.argmax(row != row[0]))),
        ),
        Mistake(
            "This is the last update before they differ; the first that differs is asked for.",
            diverged_with(update=lambda first: max(first, 1)),
        ),
        Mistake(
            "This rank has the checksum that most have; the odd one is the one that nobody shares.",
            diverged_with(one_of_most),
        ),
        Mistake(
            "This looks at the last update; by then everything may differ. Take the first disagreement.",
            lambda checksums: (len(checksums), odd_one(checksums[-1])),
        ),
        Mistake(
            "The largest checksum is no sign of a fault: the odd one is the one that the others do not share.",
            diverged_with(lambda row: int(row.argmax())),
        ),
    ),
)

EXERCISES = (CLIPPED, ORDERED_SUM, RING_STEP, LARGEST, DIVERGED)
