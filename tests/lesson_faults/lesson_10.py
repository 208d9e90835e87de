"""Planted faults of lesson 10: for each exercise, (wrong function, words that its message must hold)."""

import re
from collections import Counter

from solutions import lesson_10 as right


def counts_of_types(words):
    return right.pair_counts([(symbols, 1) for symbols, _ in words])


def counts_across_words(words):
    counts = Counter()
    for number, (symbols, frequency) in enumerate(words):
        text = symbols + (words[number + 1][0][:1] if number + 1 < len(words) else [])
        for i in range(len(text) - 1):
            counts[text[i], text[i + 1]] += frequency
    return counts


def counts_once_a_word(words):
    counts = {}
    for symbols, frequency in words:
        for pair in right.pair_counts([(symbols, 1)]):
            counts[pair] = counts.get(pair, 0) + frequency
    return counts


def counts_of_strings(words):
    return {"".join(pair): count for pair, count in right.pair_counts(words).items()}


def merge_first(symbols, pair):
    for i in range(len(symbols) - 1):
        if symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            return symbols[:i] + [pair[0] + pair[1]] + symbols[i + 2 :]
    return symbols


def merge_by_pattern(symbols, pair):
    return re.sub(re.escape(pair[0] + " " + pair[1]), pair[0] + pair[1], " ".join(symbols)).split()


def merge_either_way(symbols, pair):
    return right.merge(right.merge(symbols, pair), (pair[1], pair[0]))


def merge_in_place(symbols, pair):
    for i in range(len(symbols) - 1):
        if tuple(symbols[i : i + 2]) == pair:
            symbols[i : i + 2] = ["".join(pair)]
    return symbols


def merge_to_text(symbols, pair):
    return " ".join(right.merge(symbols, pair))


def segment_without_mark(word, merges):
    symbols = list(word)
    for pair in merges:
        symbols = right.merge(symbols, pair)
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
        if tuple(symbols[i : i + 2]) != pair:
            i += 1
            continue
        changes[pair] -= 1
        for before in symbols[max(i - 1, 0) : i]:
            changes[before, pair[0]] -= 1
            changes[before, "".join(pair)] += 1
        for after in symbols[i + 2 : i + 3]:
            changes[pair[1], after] -= 1
            changes["".join(pair), after] += 1
        i += 2
    return {key: value for key, value in changes.items() if value}


def changes_with_zeros(symbols, pair):
    before = right.pair_counts([(symbols, 1)])
    after = right.pair_counts([(right.merge(symbols, pair), 1)])
    return {key: after.get(key, 0) - before.get(key, 0) for key in before | after}


def changes_backwards(symbols, pair):
    return {key: -value for key, value in right.count_changes(symbols, pair).items()}


def learn_ties_forward(frequencies, n_merges):
    return learn_with(frequencies, n_merges, lambda counts: sorted(counts, key=lambda pair: (-counts[pair], pair))[0])


def learn_rare_pairs(frequencies, n_merges):
    doubled = {word: 2 * count for word, count in frequencies.items()}
    return right.learn(doubled, n_merges)


def learn_from_types(frequencies, n_merges):
    return right.learn(dict.fromkeys(frequencies, 2), n_merges)


def learn_once(frequencies, n_merges):
    words = [(right.segment(word, []), count) for word, count in frequencies.items()]
    counts = right.pair_counts(words)
    ordered = sorted(counts, key=lambda pair: (counts[pair], pair), reverse=True)
    return [pair for pair in ordered if counts[pair] >= 2][:n_merges]


def learn_with(frequencies, n_merges, choose):
    words, merges = [(right.segment(word, []), count) for word, count in frequencies.items()], []
    for _ in range(n_merges):
        counts = right.pair_counts(words)
        if max(counts.values(), default=0) < 2:
            break
        merges.append(choose(counts))
        words = [(right.merge(symbols, merges[-1]), count) for symbols, count in words]
    return merges


FAULTS = {
    "pair_counts": [
        (counts_of_types, "frequency of the words is not used"),
        (counts_across_words, "across the border between two words"),
        (counts_once_a_word, "counted once for each word"),
        (counts_of_strings, "Expected {"),
    ],
    "merge": [
        (merge_first, "Only the first occurrence"),
        (merge_by_pattern, "joined as text and replaced"),
        (merge_either_way, "order within the pair is ignored"),
        (merge_in_place, "changed its input symbols"),
        (merge_to_text, "must be a list of 1, got a str"),
    ],
    "segment": [
        (segment_without_mark, "The end mark is missing"),
        (segment_backwards, "learned last is applied first"),
        (segment_greedily, "longest known subword"),
        (segment_from_the_left, "leftmost pair"),
    ],
    "count_changes": [
        (changes_as_if_alone, "as if each stood alone"),
        (changes_with_zeros, "Changes of zero"),
        (changes_backwards, "signs are swapped"),
    ],
    "learn": [
        (learn_ties_forward, "the engine takes the last"),
        (learn_rare_pairs, "occurs once is merged too"),
        (learn_from_types, "frequency of the words is not used"),
        (learn_once, "counted only once"),
    ],
}
