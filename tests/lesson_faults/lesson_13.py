"""Planted faults of lesson 13: for each exercise, words that the message must hold and the wrong function."""

import math
import operator
import re

import numpy as np
from lesson_faults.altered import with_inputs, with_part, with_result

from solutions import lesson_13 as right

SPLIT = r"\1 ##AT##-##AT## \2"


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(max(len(words) - n + 1, 0))]


def counts_unclipped(hypothesis, reference, n):
    return sum(gram in grams(reference, n) for gram in grams(hypothesis, n)), len(grams(hypothesis, n))


def counts_of_sets(hypothesis, reference, n):
    ours, theirs = set(grams(hypothesis, n)), set(grams(reference, n))
    return len(ours & theirs), len(ours)


def counts_of_text(hypothesis, reference, n):
    ours, theirs = (["".join(gram) for gram in grams(words, n)] for words in (hypothesis, reference))
    return sum(min(ours.count(text), theirs.count(text)) for text in set(ours)), len(ours)


def penalty_longer_of_equal(lengths, reference_lengths):
    both = zip(lengths, reference_lengths, strict=True)
    return right.brevity_penalty(lengths, [[min(sorted(o)[::-1], key=lambda x: abs(x - n))] for n, o in both])


def length_ratio(lengths, reference_lengths):
    """c / r"""
    both = zip(lengths, reference_lengths, strict=True)
    return sum(lengths) / sum(min(sorted(options), key=lambda option: abs(option - n)) for n, options in both)


def precisions_of(hypotheses, references):
    both = list(zip(hypotheses, references, strict=True))
    sums = [np.array([right.clipped_counts(h, r, n) for h, r in both]).sum(axis=0) for n in range(1, 5)]
    return np.array([a / b if b else 0.0 for a, b in sums])


def penalty_of(hypotheses, references):
    return right.brevity_penalty([len(h) for h in hypotheses], [[len(r)] for r in references])


def corpus_without_penalty(hypotheses, references):
    return 100 * precisions_of(hypotheses, references).prod() ** 0.25


def split_overlapping(line):
    while re.search(r"[^\s#]-[^\s#]", line):
        line = re.sub(r"([^\s#])-([^\s#])", SPLIT, line)
    return line


def right_score(sums):
    return min(1.0, math.exp(1 - sums[1] / sums[0])) * math.prod(sums[2:6] / sums[6:]) ** 0.25


def bootstrap_of_means(ours, theirs, draws):
    a, b = (np.array([right_score(row) for row in counts]) for counts in (ours, theirs))
    return np.mean([a[draw].mean() > b[draw].mean() for draw in draws])


def bootstrap_of_ours(ours, theirs, draws):
    whole = right_score(theirs.sum(axis=0))
    return np.mean([right_score(ours[draw].sum(axis=0)) > whole for draw in draws])


def unpenalised(counts):
    return np.column_stack([counts[:, 0], counts[:, 0], counts[:, 2:]])


FAULTS = {
    "clipped_counts": {
        "The counts are not clipped": counts_unclipped,
        "as in a set. One that stands twice": counts_of_sets,
        "but the total by occurrence": with_part(counts_of_sets, 1, lambda ours, theirs, n: len(grams(ours, n))),
        "That is recall": lambda hypothesis, reference, n: right.clipped_counts(reference, hypothesis, n),
        "only at the same place": with_part(
            right.clipped_counts, 0, lambda ours, theirs, n: sum(map(operator.eq, grams(ours, n), grams(theirs, n)))
        ),
        "joined without a space": counts_of_text,
        "a total below zero": with_part(right.clipped_counts, 1, lambda ours, theirs, n: 1 + len(ours) - n),
        "must be a tuple of 2, got a number": with_result(
            right.clipped_counts, lambda hits, total: hits / max(total, 1)
        ),
    },
    "brevity_penalty": {
        "the wrong way round": lambda *lengths: math.exp(min(0.0, 1 - length_ratio(*lengths))),
        "gets a bonus": lambda *lengths: math.exp(1 - 1 / length_ratio(*lengths)),
        "the ratio c / r itself": lambda *lengths: min(1.0, length_ratio(*lengths)),
        "mean of the sentences' penalties": lambda lengths, reference_lengths: np.mean(
            [right.brevity_penalty([n], [options]) for n, options in zip(lengths, reference_lengths, strict=True)]
        ),
        "The shortest reference": with_inputs(
            right.brevity_penalty, reference_lengths=lambda each: [[min(options)] for options in each]
        ),
        "The first reference": with_inputs(
            right.brevity_penalty, reference_lengths=lambda each: [options[:1] for options in each]
        ),
        "the longer is taken": penalty_longer_of_equal,
    },
    "corpus": {
        "mean of the sentences' scores": lambda hypotheses, references: np.mean(
            [right.corpus([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
        ),
        "The arithmetic mean": lambda *files: 100 * penalty_of(*files) * precisions_of(*files).mean(),
        "brevity penalty is missing": corpus_without_penalty,
        "the wrong way round": lambda ours, theirs: corpus_without_penalty(ours, theirs) * penalty_of(theirs, ours),
        "from 0 to 1": with_result(right.corpus, lambda bleu: bleu / 100),
        "fourth root is missing": lambda *files: 100 * penalty_of(*files) * precisions_of(*files).prod(),
        "raised ValueError": lambda *files: 100 * math.exp(sum(map(math.log, precisions_of(*files))) / 4),
    },
    "split_compounds": {
        "Every hyphen is replaced": lambda line: " ##AT##-##AT## ".join(line.split("-")),
        "goes on behind: the second stays": split_overlapping,
        "marks ##AT## are missing": with_result(right.split_compounds, lambda line: line.replace("##AT##", "")),
        "between the letters a to z": lambda line: re.sub("(?i)([a-z])-([a-z])", SPLIT, line),
        "between letters or digits": lambda line: re.sub(r"([^\W_])-([^\W_])", SPLIT, line),
        "Only the first hyphen": lambda line: re.sub(r"(\S)-(\S)", SPLIT, line, count=1),
        "must be a str, got a list": with_result(right.split_compounds, str.split),
    },
    "bootstrap": {
        "ours must be the higher one": lambda ours, theirs, draws: right.bootstrap(theirs, ours, draws),
        "A tie is counted as won": lambda ours, theirs, draws: 1 - right.bootstrap(theirs, ours, draws),
        "scores of the sentences are averaged": bootstrap_of_means,
        "keeps its whole file": bootstrap_of_ours,
        "brevity penalty is missing": with_inputs(right.bootstrap, ours=unpenalised, theirs=unpenalised),
        "The draws are not used": lambda ours, theirs, draws: float(
            right_score(ours.sum(axis=0)) > right_score(theirs.sum(axis=0))
        ),
    },
}
