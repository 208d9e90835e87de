"""Planted faults of lesson 10: for each exercise, words that the message must hold and the wrong function."""

import re
from collections import Counter
from functools import reduce
from itertools import pairwise

from lesson_faults.altered import with_inputs, with_result

from solutions import lesson_10 as right


def merge_first(symbols, pair):
    for i in range(len(symbols) - 1):
        if symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            return symbols[:i] + [pair[0] + pair[1]] + symbols[i + 2 :]
    return symbols


def merge_in_place(symbols, pair):
    symbols[:] = right.merge(symbols, pair)
    return symbols


def segment_backwards(word, merges):
    symbols, known = right.segment(word, []), set(merges)
    while known & set(right.pair_counts([(symbols, 1)])):
        symbols = right.merge(symbols, [p for p in merges if p in right.pair_counts([(symbols, 1)])][-1])
    return symbols


def segment_greedily(word, merges):
    vocabulary = {"".join(pair) for pair in merges}
    text, symbols = right.segment(word, []), []
    while text:
        end = len(text)
        while end > 1 and "".join(text[:end]) not in vocabulary:
            end -= 1
        symbols.append("".join(text[:end]))
        text = text[end:]
    return symbols


def segment_from_the_left(word, merges):
    symbols, i = right.segment(word, []), 0
    while i + 1 < len(symbols):
        if (symbols[i], symbols[i + 1]) in merges:
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
            i = 0
        else:
            i += 1
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


def changes_with_zeros(symbols, pair):
    before = right.pair_counts([(symbols, 1)])
    after = right.pair_counts([(right.merge(symbols, pair), 1)])
    return {key: after.get(key, 0) - before.get(key, 0) for key in before | after}


def learn_once(frequencies, n_merges):
    words = [(right.segment(word, []), count) for word, count in frequencies.items()]
    counts = right.pair_counts(words)
    ordered = sorted(counts, key=lambda pair: (counts[pair], pair), reverse=True)
    return [pair for pair in ordered if counts[pair] >= 2][:n_merges]


def learn_ties_forward(frequencies, n_merges, least=2):
    words, merges = [(right.segment(word, []), count) for word, count in frequencies.items()], []
    for _ in range(n_merges):
        counts = right.pair_counts(words)
        if max(counts.values(), default=0) < least:
            break
        merges.append(min(counts, key=lambda pair: (-counts[pair], pair)))
        words = [(right.merge(symbols, merges[-1]), count) for symbols, count in words]
    return merges


FAULTS = {
    "pair_counts": {
        "frequency of the words is not used": lambda words: right.pair_counts([(symbols, 1) for symbols, _ in words]),
        "across the border between two words": lambda words: right.pair_counts(
            [
                (symbols + after[:1], count)
                for (symbols, count), (after, _) in zip(words, [*words[1:], ([], 0)], strict=True)
            ]
        ),
        "counted once for each word": lambda words: sum(
            (Counter(dict.fromkeys(right.pair_counts([word]), word[1])) for word in words), Counter()
        ),
        "Expected {": with_result(right.pair_counts, lambda counts: {"".join(pair): n for pair, n in counts.items()}),
    },
    "merge": {
        "Only the first occurrence": merge_first,
        "joined as text and replaced": lambda symbols, pair: re.sub(
            re.escape(pair[0] + " " + pair[1]), pair[0] + pair[1], " ".join(symbols)
        ).split(),
        "order within the pair is ignored": lambda symbols, pair: right.merge(right.merge(symbols, pair), pair[::-1]),
        "changed its input symbols": merge_in_place,
        "must be a list of 1, got a str": with_result(right.merge, " ".join),
    },
    "segment": {
        "The end mark is missing": lambda word, merges: reduce(right.merge, merges, list(word)),
        "learned last is applied first": segment_backwards,
        "begin with the first": lambda word, merges: reduce(right.merge, merges[::-1], right.segment(word, [])),
        "longest known subword": segment_greedily,
        "leftmost pair": segment_from_the_left,
    },
    "count_changes": {
        "as if each stood alone": changes_as_if_alone,
        "Changes of zero": changes_with_zeros,
        "signs are swapped": with_result(
            right.count_changes, lambda changes: {pair: -n for pair, n in changes.items()}
        ),
    },
    "learn": {
        "the engine takes the last": learn_ties_forward,
        "occurs once is merged too": with_inputs(
            right.learn, frequencies=lambda words: {w: 2 * n for w, n in words.items()}
        ),
        "frequency of the words is not used": with_inputs(
            right.learn, frequencies=lambda words: dict.fromkeys(words, 2)
        ),
        "counted only once": learn_once,
        "Two things": lambda frequencies, n_merges: learn_ties_forward(frequencies, n_merges, least=1),
    },
}
