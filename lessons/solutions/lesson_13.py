"""Solutions of lesson 13, BLEU."""

import re
from collections import Counter

import numpy as np


def clipped_counts(hypothesis, reference, n):
    ours, theirs = (
        Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (hypothesis, reference)
    )
    return (ours & theirs).total(), ours.total()  # & takes of each n-gram the smaller count


def brevity_penalty(lengths, reference_lengths):
    c, r = sum(lengths), 0
    for length, options in zip(lengths, reference_lengths, strict=True):
        r += min(options, key=lambda option: (abs(option - length), option))
    return min(1.0, np.exp(1 - r / c))


def corpus(hypotheses, references):
    log_mean = 0.0
    for n in range(1, 5):
        counts = [clipped_counts(h, r, n) for h, r in zip(hypotheses, references, strict=True)]
        right, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        if right == 0:
            return 0.0
        log_mean += np.log(right / total) / 4
    return 100 * brevity_penalty([len(h) for h in hypotheses], [[len(r)] for r in references]) * np.exp(log_mean)


def split_compounds(line):
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def bootstrap(ours, theirs, draws):
    def score(sums):
        log_mean = np.log(sums[:, 2:6] / sums[:, 6:]).mean(axis=1)
        return np.minimum(1.0, np.exp(1 - sums[:, 1] / sums[:, 0])) * np.exp(log_mean)

    return np.mean(score(ours[draws].sum(axis=1)) > score(theirs[draws].sum(axis=1)))
