"""Exercises of lesson 14: answers against their references, as a whole and digit by digit."""

import numpy as np

from course.exercise import Exercise, Mistake

# -- exact_match ------------------------------------------------------------------------------------------------------


def exact_match_inputs(rng):
    yield ["zwei"], ["zwei"]
    yield ["zwei", "eins", "elf", "el"], ["zwei", "elf", "eins", "elf"]
    yield (
        ["zehn", "drei", "zehn", "elf", "", "Neun", "acht "],
        ["zehn", "dreizehn", "neun", "elf", "vier", "neun", "acht"],
    )


def exact_match(answers, references):
    return np.mean([answer == reference for answer, reference in zip(answers, references, strict=True)])


def share_where(agree):
    return lambda answers, references: np.mean([agree(a, r) for a, r in zip(answers, references, strict=True)])


def share_of_letters(answers, references):
    return sum(a == r for pair in zip(answers, references, strict=True) for a, r in zip(*pair, strict=False)) / sum(
        map(len, references)
    )


EXACT_MATCH = Exercise(
    "14_translation.exact_match",
    exact_match_inputs,
    reference=exact_match,
    tested="answers in another order, answers that are only a beginning, an empty one, a capital and a space",
    mistakes=(
        Mistake(
            "This is the number of right answers; the share divides it by all.", lambda a, r: exact_match(a, r) * len(a)
        ),
        Mistake("This is the share in percent; give it from 0 to 1.", lambda a, r: 100 * exact_match(a, r)),
        Mistake(
            "An answer counts if it stands anywhere among the references; only its own reference makes it right.",
            lambda answers, references: np.mean([answer in references for answer in answers]),
        ),
        Mistake(
            "An answer that is only the beginning of its reference counts here; the empty answer begins every word.",
            share_where(lambda answer, reference: reference.startswith(answer)),
        ),
        *(
            Mistake(
                "Capitals or spaces are ignored here; only the text exactly as it stands is right.",
                share_where(lambda answer, reference, even=even: even(answer) == even(reference)),
            )
            for even in (str.lower, str.strip, lambda text: text.strip().lower())
        ),
        Mistake("Letters are compared; one wrong letter makes the whole answer wrong.", share_of_letters),
    ),
)

# -- confusion --------------------------------------------------------------------------------------------------------


def confusion_inputs(rng):
    yield [61], [71]
    yield [421_057, 6_810, 300], [421_757, 16_810, 30]
    yield [int(n) for n in rng.integers(0, 10**6, 20)], [int(n) for n in rng.integers(0, 10**5, 20)]


def counted(pairs):
    counts = np.zeros((10, 10), dtype=int)
    for expected, predicted in pairs:
        counts[int(expected), int(predicted)] += 1
    return counts


def digit_pairs(expected, predicted, width=6):
    """Pairs of digits, position by position."""
    return [
        pair
        for a, b in zip(expected, predicted, strict=True)
        for pair in zip(f"{a:0{width}d}", f"{b:0{width}d}", strict=False)
    ]


def confusion(expected, predicted):
    return counted(digit_pairs(expected, predicted))


CONFUSION = Exercise(
    "14_translation.confusion",
    confusion_inputs,
    reference=confusion,
    tested="numbers of one to six digits, some longer or shorter than the prediction",
    mistakes=(
        Mistake(
            "`counts[a, b] += 1` with arrays adds 1 once, however often a pair occurs: use `np.add.at`.",
            lambda expected, predicted: np.minimum(confusion(expected, predicted), 1),
        ),
        Mistake(
            "Digits are compared from the left: 6,810 and 16,810 differ in one digit. Pad with zeros to six digits.",
            lambda expected, predicted: counted(digit_pairs(expected, predicted, width=1)),
        ),
        Mistake(
            "Leading zeros are not counted: a digit that one of the numbers lacks is a 0.",
            lambda expected, predicted: counted(
                pair
                for a, b in zip(expected, predicted, strict=True)
                for pair in zip(str(a)[::-1], str(b)[::-1], strict=False)
            ),
        ),
        Mistake(
            "It is transposed: the row is the right digit, the column the predicted one.",
            lambda expected, predicted: confusion(expected, predicted).T,
        ),
        Mistake(
            "Only wrong digits are counted; the diagonal holds the right ones.",
            lambda expected, predicted: confusion(expected, predicted) * (1 - np.eye(10, dtype=int)),
        ),
    ),
)
