"""Exercises of lesson 13: clipped counts of n-grams, and BLEU of a file."""

from collections import Counter

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.evaluation import require_sacrebleu


def ngrams(words, n, key=tuple):
    return Counter(key(words[i : i + n]) for i in range(len(words) - n + 1))


def random_sentence(rng, longest, shortest=1):
    return rng.choice(["the", "a", "dog", "sees", "cat"], rng.integers(shortest, longest + 1)).tolist()


# -- clipped_counts ---------------------------------------------------------------------------------------------------


def clipped_counts_inputs(rng):
    yield ["the", "the"], ["the", "cat"], 1
    yield ["a"], ["a", "dog"], 3
    yield ["ab", "c", "d"], ["a", "bc", "d"], 2
    yield ["the", "dog", "the", "dog", "the", "dog"], ["the", "dog", "sees", "the", "dog"], 2
    for n in (1, 1, 2, 2, 3, 4):
        yield random_sentence(rng, 12, 8), random_sentence(rng, 12, 8), n


def counted(hypothesis, reference, n, clip=min, key=tuple):
    ours, theirs = ngrams(hypothesis, n, key), ngrams(reference, n, key)
    return sum(clip(count, theirs[gram]) for gram, count in ours.items()), ours.total()


def by_place(hypothesis, reference, n):
    places = range(min(len(hypothesis), len(reference)) - n + 1)
    return sum(hypothesis[i : i + n] == reference[i : i + n] for i in places), ngrams(hypothesis, n).total()


CLIPPED_COUNTS = Exercise(
    "13_bleu.clipped_counts",
    clipped_counts_inputs,
    reference=lambda hypothesis, reference, n: counted(hypothesis, reference, n),
    tested="ten pairs of sentences with repeated words, for n from 1 to 4",
    mistakes=(
        Mistake(
            "The counts are not clipped: an n-gram is right at most as often as it stands in the reference.",
            lambda hypothesis, reference, n: counted(hypothesis, reference, n, lambda a, b: a if b else 0),
        ),
        Mistake(
            "Each kind of n-gram is counted once, as in a set. One that stands twice on both sides is right twice.",
            lambda hypothesis, reference, n: counted(list_of_kinds(hypothesis, n), list_of_kinds(reference, n), 1),
        ),
        Mistake(
            "The right ones are counted by kind, as in a set, but the total by occurrence.",
            lambda hypothesis, reference, n: counted(hypothesis, reference, n, lambda a, b: min(a, b, 1)),
        ),
        Mistake(
            "The total is that of the reference. That is recall; BLEU divides by the n-grams of the hypothesis.",
            lambda hypothesis, reference, n: (counted(hypothesis, reference, n)[0], ngrams(reference, n).total()),
        ),
        Mistake("An n-gram counts here only at the same place; it may stand anywhere in the reference.", by_place),
        Mistake(
            "The words of an n-gram are joined without a space: (ab, c) and (a, bc) became the same text.",
            lambda hypothesis, reference, n: counted(hypothesis, reference, n, key="".join),
        ),
        Mistake(
            "The last n-gram is missing: m words have m - n + 1 n-grams.",
            lambda hypothesis, reference, n: counted(hypothesis[:-1], reference[:-1], n),
        ),
        Mistake(
            "A sentence shorter than n has a total below zero; it has no n-grams, so 0.",
            lambda hypothesis, reference, n: (counted(hypothesis, reference, n)[0], len(hypothesis) - n + 1),
        ),
    ),
    parts=("clipped count", "total"),
)


def list_of_kinds(words, n):
    return list(ngrams(words, n))


# -- corpus -----------------------------------------------------------------------------------------------------------


def corpus_inputs(rng):
    yield ["the the the dog sleeps under the table".split()], ["the small dog sleeps under the table".split()]
    yield [["the", "dog", "sees", "a"]], [["the", "dog", "the", "cat"]]
    yield ["the dog sees a cat".split(), ["a", "dog"]], ["the dog sees a cat".split(), ["a", "small", "cat"]]
    for _ in range(3):
        references = [random_sentence(rng, 14, 6) for _ in range(5)]
        yield [_spoiled(rng, words) for words in references], references


def _spoiled(rng, words):
    """A hypothesis: some words doubled, some missing, at least one left."""
    return [words[0], *(word for word in words[1:] for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 2])))]


def by_sacrebleu(hypotheses, references):
    metric = require_sacrebleu().BLEU(tokenize="none", smooth_method="none")
    return metric.corpus_score([" ".join(h) for h in hypotheses], [[" ".join(r) for r in references]]).score


def geometric(precisions):
    return float(np.prod(precisions) ** 0.25)


def bleu_with(mean=geometric, formula=lambda c, r: min(1.0, np.exp(1 - r / c)), count=counted, factor=100.0):
    """BLEU of the sums, with what each mistake changes."""

    def bleu(hypotheses, references):
        both = list(zip(hypotheses, references, strict=True))
        sums = [np.sum([count(h, r, n) for h, r in both], axis=0) for n in range(1, 5)]
        precisions = [right / total if right else 0.0 for right, total in sums]
        return factor * formula(sum(map(len, hypotheses)), sum(map(len, references))) * mean(precisions)

    return bleu


def mean_of_sentences(hypotheses, references):
    return float(np.mean([bleu_with()([h], [r]) for h, r in zip(hypotheses, references, strict=True)]))


def mean_of_precisions(hypotheses, references):
    """Each p_n as the mean of the sentences' own, 0 for a sentence without n-grams."""
    both = list(zip(hypotheses, references, strict=True))
    counts = np.array([[counted(h, r, n) for h, r in both] for n in range(1, 5)], dtype=float)
    precisions = (counts[..., 0] / np.maximum(counts[..., 1], 1)).mean(axis=1)
    return bleu_with(mean=lambda _: geometric(precisions))(hypotheses, references)


CORPUS = Exercise(
    "13_bleu.corpus",
    corpus_inputs,
    reference=by_sacrebleu,
    tested="six files, against sacreBLEU on words already cut and without smoothing",
    mistakes=(
        Mistake(
            "This is the mean of the sentences' scores. BLEU adds up the counts of the file and divides once.",
            mean_of_sentences,
        ),
        Mistake(
            "The file is joined into one long sentence: n-grams then run from one sentence into the next.",
            lambda hypotheses, references: bleu_with()([sum(hypotheses, [])], [sum(references, [])]),
        ),
        Mistake(
            "Each precision is a mean over the sentences. Add up right and total n-grams first, then divide.",
            mean_of_precisions,
        ),
        Mistake(
            "The arithmetic mean of the precisions is taken; it must be the geometric one.",
            bleu_with(mean=lambda precisions: float(np.mean(precisions))),
        ),
        Mistake(
            "The four precisions are multiplied, but the fourth root is missing.",
            bleu_with(mean=lambda precisions: float(np.prod(precisions))),
        ),
        Mistake("Only the 4-grams are used; the geometric mean has all four.", bleu_with(mean=lambda p: p[3])),
        Mistake(
            "The counts are not clipped.", bleu_with(count=lambda h, r, n: counted(h, r, n, lambda a, b: a if b else 0))
        ),
        Mistake("The brevity penalty is missing.", bleu_with(formula=lambda c, r: 1.0)),
        Mistake(
            "The brevity penalty stands the wrong way round: it punishes what is longer than the reference.",
            bleu_with(formula=lambda c, r: min(1.0, np.exp(1 - c / r))),
        ),
        Mistake(
            "The brevity penalty rewards a long hypothesis: it is never above 1.",
            bleu_with(formula=lambda c, r: np.exp(1 - r / c)),
        ),
        Mistake("The result goes from 0 to 1; BLEU is given from 0 to 100.", bleu_with(factor=1.0)),
        Mistake(
            "A sentence shorter than n takes n-grams away from the total; it has none, so 0.",
            bleu_with(count=lambda h, r, n: (counted(h, r, n)[0], len(h) - n + 1)),
        ),
        Mistake(
            "The totals are those of the reference: that is recall.",
            bleu_with(count=lambda h, r, n: (counted(h, r, n)[0], ngrams(r, n).total())),
        ),
    ),
)
