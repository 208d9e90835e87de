"""Planted faults of lesson 14: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_14 as right


def match_counted(answers, references):
    return len([i for i in range(len(answers)) if answers[i] == references[i]])


def match_in_any_order(answers, references):
    return sum(answer in set(references) for answer in answers) / len(answers)


def match_of_beginnings(answers, references):
    return sum(r[: len(a)] == a for a, r in zip(answers, references, strict=True)) / len(answers)


def match_without_mean(answers, references):
    return np.array(answers) == np.array(references)


def alignment_to_eos(weights):
    return weights.sum(axis=0)[:-1, :].argmax(axis=1)


def alignment_of_eos(weights):
    return weights.sum(axis=0)[:, :-1].argmax(axis=1)


def alignment_of_targets(weights):
    return weights.sum(axis=0)[:-1, :-1].argmax(axis=0)


def alignment_of_first_head(weights):
    return right.alignment(weights[:1])


def alignment_of_each_head(weights):
    return weights[:, :-1, :-1].argmax(axis=-1)


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


def confusion_transposed(expected, predicted):
    return right.confusion(predicted, expected)


def left_sorted(lines, translate, size):
    lines = sorted(lines, key=len, reverse=True)
    return [result for i in range(0, len(lines), size) for result in translate(lines[i : i + size])]


def sorted_again(lines, translate, size):
    results, order = left_sorted(lines, translate, size), np.argsort([-len(line) for line in lines], kind="stable")
    return [results[k] for k in order]


def never_sorted(lines, translate, size):
    return [result for i in range(0, len(lines), size) for result in translate(lines[i : i + size])]


def all_at_once(lines, translate, size):
    return right.in_order(lines, translate, max(len(lines), 1))


def mean_as_it_lies(vectors, tables):
    return sum(vectors) / len(vectors)


def mean_of_sum(vectors, tables):
    return right.mean(vectors, tables) * len(vectors)


def mean_step_by_step(vectors, tables):
    result = vectors[0]
    for vector, table in zip(vectors[1:], tables[1:], strict=True):
        result = right.mean([result, vector], [tables[0], table])
    return result


def mean_of_tables(vectors, tables):
    return {name: vectors[0][offset] for name, _, offset in tables[0]}


FAULTS = {
    "exact_match": [
        (match_counted, "number of right answers"),
        (match_in_any_order, "anywhere among the references"),
        (match_of_beginnings, "only the beginning"),
        (match_without_mean, "must have the shape ()"),
    ],
    "alignment": [
        (alignment_to_eos, "The source's EOS is not left out"),
        (alignment_of_eos, "The row of the target's EOS"),
        (alignment_of_targets, "The maximum runs over the target"),
        (alignment_of_first_head, "Only the first head"),
        (alignment_of_each_head, "must have the shape (1,), got (1, 1)"),
    ],
    "confusion": [
        (confusion_at_once, "np.add.at"),
        (confusion_from_the_left, "compared from the left"),
        (confusion_without_zeros, "Leading zeros are not counted"),
        (confusion_transposed, "transposed"),
    ],
    "in_order": [
        (left_sorted, "in the order of translation"),
        (sorted_again, "applies the order again"),
        (never_sorted, "the longest must come first"),
        (all_at_once, "were allowed"),
    ],
    "mean": [
        (mean_as_it_lies, "added as they lie"),
        (mean_of_sum, "This is the sum"),
        (mean_step_by_step, "Half way to each next model"),
        (mean_of_tables, "must be an array"),
    ],
}
