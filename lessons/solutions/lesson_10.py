"""Solutions of lesson 10, subwords."""

import math


def pair_counts(words):
    counts = {}
    for symbols, frequency in words:
        for pair in zip(symbols, symbols[1:], strict=False):
            counts[pair] = counts.get(pair, 0) + frequency
    return counts


def merge(symbols, pair):
    merged, at = [], 0
    while at < len(symbols):
        if tuple(symbols[at : at + 2]) == pair:
            merged.append(pair[0] + pair[1])
            at += 2
        else:
            merged.append(symbols[at])
            at += 1
    return merged


def segment(word, merges):
    symbols = [*word[:-1], word[-1] + "</w>"]
    # A merge joins what earlier ones made, so one walk through the list, in order, is enough.
    for pair in merges:
        symbols = merge(symbols, pair)
    return symbols


def count_changes(symbols, pair):
    changes = {}
    for word, sign in ((symbols, -1), (merge(symbols, pair), +1)):
        for neighbors, count in pair_counts([(word, 1)]).items():
            changes[neighbors] = changes.get(neighbors, 0) + sign * count
    return {neighbors: change for neighbors, change in changes.items() if change}


def learn(frequencies, n_merges):
    words = [([*word[:-1], word[-1] + "</w>"], count) for word, count in frequencies.items()]
    merges = []
    while len(merges) < n_merges:
        counts = pair_counts(words)
        if not counts or max(counts.values()) < 2:
            break
        merges.append(max(counts, key=lambda pair: (counts[pair], pair)))
        words = [(merge(symbols, merges[-1]), count) for symbols, count in words]
    return merges


def viterbi(text, scores):
    sums, starts = [0.0], [0]
    for end in range(1, len(text) + 1):
        sums.append(-math.inf)
        starts.append(0)
        for start in range(end):
            total = sums[start] + scores.get(text[start:end], -math.inf)
            if total > sums[end]:
                sums[end], starts[end] = total, start
    pieces, end = [], len(text)
    while end > 0:
        pieces.append(text[starts[end] : end])
        end = starts[end]
    return sums, pieces[::-1]
