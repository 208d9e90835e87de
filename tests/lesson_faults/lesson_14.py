"""Planted faults of lesson 14: for each exercise, words that the message must hold and the wrong function."""

import numpy as np

from solutions import lesson_14 as right


def counted(pairs):
    counts = np.zeros((10, 10), dtype=int)
    for a, b in pairs:
        counts[a, b] += 1
    return counts


def digit_pairs(expected, predicted, step=1):
    both = zip(expected, predicted, strict=True)
    return [(int(x), int(y)) for a, b in both for x, y in zip(str(a)[::step], str(b)[::step], strict=False)]


def translated(lines, translate, size):
    return [result for i in range(0, len(lines), size) for result in translate(lines[i : i + size])]


FAULTS = {
    "exact_match": {
        "number of right answers": " / len(references) -> ",
        "anywhere among the references": lambda answers, references: np.isin(answers, references).mean(),
        "Capitals or spaces": "answer == reference -> answer.lower() == reference.lower()",
        "only the beginning": lambda answers, references: np.mean(list(map(str.startswith, references, answers))),
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
        "compared from the left": lambda expected, predicted: counted(digit_pairs(expected, predicted)),
        "Leading zeros are not counted": lambda expected, predicted: counted(digit_pairs(expected, predicted, -1)),
        "transposed": lambda expected, predicted: right.confusion(predicted, expected),
    },
    "in_order": {
        "in the order of translation": lambda lines, *rest: translated(sorted(lines, key=len, reverse=True), *rest),
        "the longest must come first": translated,
        "were allowed": lambda lines, translate, size: right.in_order(lines, translate, max(len(lines), 1)),
    },
    "mean": {
        "added as they lie": lambda vectors, tables: sum(vectors) / len(vectors),
        "This is the sum": lambda vectors, tables: right.mean(vectors, tables) * len(vectors),
        "must be an array": lambda vectors, tables: {name: vectors[0][offset] for name, _, offset in tables[0]},
    },
}
