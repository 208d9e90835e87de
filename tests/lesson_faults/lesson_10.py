"""Planted faults of lesson 10: for each exercise, words that the message must hold and the wrong function."""

from collections import Counter
from functools import reduce
from itertools import pairwise

from lesson_faults.altered import with_result

from solutions import lesson_10 as right


def segment_backwards(word, merges):
    symbols, known = right.segment(word, []), set(merges)
    while known & set(right.pair_counts([(symbols, 1)])):
        symbols = right.merge(symbols, [p for p in merges if p in right.pair_counts([(symbols, 1)])][-1])
    return symbols


def changes_as_if_alone(symbols, pair):
    changes, i = Counter(), 0
    while i + 1 < len(symbols):
        found = tuple(symbols[i : i + 2]) == pair
        if found:
            before, after = symbols[:i][-1:], symbols[i + 2 : i + 3]
            changes.update(pairwise([*before, "".join(pair), *after]))
            changes.subtract(pairwise([*before, *pair, *after]))
        i += 1 + found
    return {key: value for key, value in changes.items() if value}


def longest_from_the_left(text, scores):
    pieces, rest = [], text
    while rest:
        pieces.append(next(rest[:size] for size in range(len(rest), 0, -1) if rest[:size] in scores))
        rest = rest[len(pieces[-1]) :]
    return right.viterbi(text, scores)[0], pieces


FAULTS = {
    "pair_counts": {
        "frequency of the words is not used": lambda words: right.pair_counts([(symbols, 1) for symbols, _ in words]),
        "counted once for each word": "zip(symbols, symbols[1:], strict=False) -> set(zip(symbols, symbols[1:]))",
        "Expected {": with_result(right.pair_counts, lambda counts: {"".join(pair): n for pair, n in counts.items()}),
    },
    "merge": {
        "Only the first occurrence": "            at += 2 ->             return merged + symbols[at + 2 :]",
        "order within the pair is ignored": lambda symbols, pair: right.merge(right.merge(symbols, pair), pair[::-1]),
        "changed its input symbols": "return merged -> symbols[:] = merged\n    return symbols",
        "must be a list of 1, got a str": with_result(right.merge, " ".join),
    },
    "segment": {
        "The end mark is missing": lambda word, merges: reduce(right.merge, merges, list(word)),
        "learned last is applied first": segment_backwards,
        "begin with the first": lambda word, merges: reduce(right.merge, merges[::-1], right.segment(word, [])),
    },
    "count_changes": {
        "as if each stood alone": changes_as_if_alone,
        "Changes of zero": " if change} -> }",
        "signs are swapped": "sign * count -> -sign * count",
    },
    "learn": {
        "the engine takes the last": "max(counts, key=lambda pair: (counts -> min(counts, key=lambda pair: (-counts",
        "occurs once is merged too": "< 2 -> < 1",
        "frequency of the words is not used": "], count) for word -> ], 2) for word",
        "Two things": ("max(counts, key=lambda pair: (counts -> min(counts, key=lambda pair: (-counts", "< 2 -> < 1"),
    },
    "viterbi": {
        "turn their order round": "return sums, pieces[::-1] -> return sums, pieces",
        "smallest sum is kept": (
            "-math.inf)\n        starts -> math.inf)\n        starts",
            "text[start:end], -math.inf -> text[start:end], math.inf",
            "total > -> total <",
        ),
        "The last arrival at a place": "if total > sums[end] -> if total > -math.inf",
        "holds the last score alone": "sums[start] + scores -> 0 * start + scores",
        "sums[0] is 0": with_result(right.viterbi, lambda sums, pieces: (sums[1:], pieces)),
        "longest from the left": longest_from_the_left,
        "pieces": "pieces.append(text[starts[end] : end]) -> pieces.append(text[starts[end] : end - 1])",
    },
}
