"""Planted faults of lesson 14: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_14 as right


def confusion_at_once(expected, predicted):
    counts = np.zeros((10, 10), dtype=int)
    tens = 10 ** np.arange(6)
    asked, told = (np.array(numbers)[:, None] // tens % 10 for numbers in (expected, predicted))
    counts[asked, told] += 1
    return counts


def confusion_from_the_left(expected, predicted):
    counts = np.zeros((10, 10), dtype=int)
    for a, b in zip(expected, predicted, strict=True):
        for x, y in zip(str(a), str(b), strict=False):
            counts[int(x), int(y)] += 1
    return counts


def confusion_without_zeros(expected, predicted):
    counts = np.zeros((10, 10), dtype=int)
    for a, b in zip(expected, predicted, strict=True):
        for i in range(min(len(str(a)), len(str(b)))):
            counts[a // 10**i % 10, b // 10**i % 10] += 1
    return counts


def left_sorted(lines, translate, size):
    lines = sorted(lines, key=len, reverse=True)
    return [result for i in range(0, len(lines), size) for result in translate(lines[i : i + size])]


def sorted_again(lines, translate, size):
    results, order = left_sorted(lines, translate, size), np.argsort([-len(line) for line in lines], kind="stable")
    return [results[k] for k in order]


def mean_step_by_step(vectors, tables):
    result = vectors[0]
    for vector, table in zip(vectors[1:], tables[1:], strict=True):
        result = right.mean([result, vector], [tables[0], table])
    return result


FAULTS = {
    "exact_match": {
        "number of right answers": lambda answers, references: len(
            [i for i in range(len(answers)) if answers[i] == references[i]]
        ),
        "anywhere among the references": lambda answers, references: (
            sum(answer in set(references) for answer in answers) / len(answers)
        ),
        "only the beginning": lambda answers, references: (
            sum(r[: len(a)] == a for a, r in zip(answers, references, strict=True)) / len(answers)
        ),
        "must have the shape ()": lambda answers, references: np.array(answers) == np.array(references),
    },
    "alignment": {
        "The source's EOS is not left out": lambda weights: weights.sum(axis=0)[:-1, :].argmax(axis=1),
        "The row of the target's EOS": lambda weights: weights.sum(axis=0)[:, :-1].argmax(axis=1),
        "The maximum runs over the target": lambda weights: weights.sum(axis=0)[:-1, :-1].argmax(axis=0),
        "Only the first head": lambda weights: right.alignment(weights[:1]),
        "must have the shape (1,), got (1, 1)": lambda weights: weights[:, :-1, :-1].argmax(axis=-1),
    },
    "confusion": {
        "np.add.at": confusion_at_once,
        "compared from the left": confusion_from_the_left,
        "Leading zeros are not counted": confusion_without_zeros,
        "transposed": lambda expected, predicted: right.confusion(predicted, expected),
    },
    "in_order": {
        "in the order of translation": left_sorted,
        "applies the order again": sorted_again,
        "the longest must come first": lambda lines, translate, size: [
            result for i in range(0, len(lines), size) for result in translate(lines[i : i + size])
        ],
        "were allowed": lambda lines, translate, size: right.in_order(lines, translate, max(len(lines), 1)),
    },
    "mean": {
        "added as they lie": lambda vectors, tables: sum(vectors) / len(vectors),
        "This is the sum": lambda vectors, tables: right.mean(vectors, tables) * len(vectors),
        "Half way to each next model": mean_step_by_step,
        "must be an array": lambda vectors, tables: {name: vectors[0][offset] for name, _, offset in tables[0]},
    },
}
