"""Planted faults of lesson 13: for each exercise, (wrong function, words that its message must hold)."""

import math
import re

import numpy as np

from solutions import lesson_13 as right


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(max(len(words) - n + 1, 0))]


def counts_unclipped(hypothesis, reference, n):
    return sum(gram in grams(reference, n) for gram in grams(hypothesis, n)), len(grams(hypothesis, n))


def counts_of_sets(hypothesis, reference, n):
    ours, theirs = set(grams(hypothesis, n)), set(grams(reference, n))
    return len(ours & theirs), len(ours)


def counts_set_over_all(hypothesis, reference, n):
    return counts_of_sets(hypothesis, reference, n)[0], len(grams(hypothesis, n))


def counts_recall(hypothesis, reference, n):
    return right.clipped_counts(reference, hypothesis, n)


def counts_in_place(hypothesis, reference, n):
    matches = [a == b for a, b in zip(grams(hypothesis, n), grams(reference, n), strict=False)]
    return sum(matches), len(grams(hypothesis, n))


def counts_of_text(hypothesis, reference, n):
    ours, theirs = (["".join(gram) for gram in grams(words, n)] for words in (hypothesis, reference))
    return sum(min(ours.count(text), theirs.count(text)) for text in set(ours)), len(ours)


def counts_negative(hypothesis, reference, n):
    return right.clipped_counts(hypothesis, reference, n)[0], 1 + len(hypothesis) - n


def counts_as_share(hypothesis, reference, n):
    matched, total = right.clipped_counts(hypothesis, reference, n)
    return matched / max(total, 1)


def penalty_turned(lengths, reference_lengths):
    c, r = sum(lengths), nearest_sum(lengths, reference_lengths)
    return 1.0 if c <= r else math.exp(1 - c / r)


def penalty_with_bonus(lengths, reference_lengths):
    return math.exp(1 - nearest_sum(lengths, reference_lengths) / sum(lengths))


def penalty_linear(lengths, reference_lengths):
    return min(1.0, sum(lengths) / nearest_sum(lengths, reference_lengths))


def penalty_per_sentence(lengths, reference_lengths):
    each = [right.brevity_penalty([n], [options]) for n, options in zip(lengths, reference_lengths, strict=True)]
    return sum(each) / len(each)


def penalty_shortest(lengths, reference_lengths):
    return right.brevity_penalty(lengths, [[sorted(options)[0]] for options in reference_lengths])


def penalty_first(lengths, reference_lengths):
    return right.brevity_penalty(lengths, [options[:1] for options in reference_lengths])


def penalty_longer_of_equal(lengths, reference_lengths):
    both = zip(lengths, reference_lengths, strict=True)
    return right.brevity_penalty(lengths, [[min(sorted(o)[::-1], key=lambda x: abs(x - n))] for n, o in both])


def nearest_sum(lengths, reference_lengths):
    both = zip(lengths, reference_lengths, strict=True)
    return sum(min(sorted(options), key=lambda option: abs(option - length)) for length, options in both)


def corpus_mean(hypotheses, references):
    return np.mean([right.corpus([h], [r]) for h, r in zip(hypotheses, references, strict=True)])


def precisions_of(hypotheses, references):
    both = list(zip(hypotheses, references, strict=True))
    sums = [np.array([right.clipped_counts(h, r, n) for h, r in both]).sum(axis=0) for n in range(1, 5)]
    return np.array([a / b if b else 0.0 for a, b in sums])


def penalty_of(hypotheses, references):
    return right.brevity_penalty([len(h) for h in hypotheses], [[len(r)] for r in references])


def corpus_arithmetic(hypotheses, references):
    return 100 * penalty_of(hypotheses, references) * precisions_of(hypotheses, references).mean()


def corpus_without_penalty(hypotheses, references):
    return 100 * precisions_of(hypotheses, references).prod() ** 0.25


def corpus_turned_penalty(hypotheses, references):
    return corpus_without_penalty(hypotheses, references) * penalty_of(references, hypotheses)


def corpus_fraction(hypotheses, references):
    return right.corpus(hypotheses, references) / 100


def corpus_product(hypotheses, references):
    return 100 * penalty_of(hypotheses, references) * precisions_of(hypotheses, references).prod()


def corpus_dividing_by_zero(hypotheses, references):
    return 100 * math.exp(sum(math.log(p) for p in precisions_of(hypotheses, references)) / 4)


def split_everywhere(line):
    return " ##AT##-##AT## ".join(line.split("-"))


def split_overlapping(line):
    while re.search(r"[^\s#]-[^\s#]", line):
        line = re.sub(r"([^\s#])-([^\s#])", r"\1 ##AT##-##AT## \2", line)
    return line


def split_without_marks(line):
    return right.split_compounds(line).replace("##AT##", "")


def split_letters(line):
    return re.sub("(?i)([a-z])-([a-z])", r"\1 ##AT##-##AT## \2", line)


def split_word_characters(line):
    return re.sub(r"([^\W_])-([^\W_])", r"\1 ##AT##-##AT## \2", line)


def split_first(line):
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line, count=1)


def split_to_words(line):
    return right.split_compounds(line).split()


def sentence_scores(counts):
    return np.array([right_score(row) for row in counts])


def right_score(sums):
    return min(1.0, math.exp(1 - sums[1] / sums[0])) * math.prod(sums[2:6] / sums[6:]) ** 0.25


def bootstrap_reversed(ours, theirs, draws):
    return right.bootstrap(theirs, ours, draws)


def bootstrap_with_ties(ours, theirs, draws):
    return 1 - right.bootstrap(theirs, ours, draws)


def bootstrap_of_means(ours, theirs, draws):
    a, b = sentence_scores(ours), sentence_scores(theirs)
    return np.mean([a[draw].mean() > b[draw].mean() for draw in draws])


def bootstrap_of_ours(ours, theirs, draws):
    whole = right_score(theirs.sum(axis=0))
    return np.mean([right_score(ours[draw].sum(axis=0)) > whole for draw in draws])


def bootstrap_without_penalty(ours, theirs, draws):
    def unpenalised(counts):
        return np.column_stack([counts[:, 0], counts[:, 0], counts[:, 2:]])

    return right.bootstrap(unpenalised(ours), unpenalised(theirs), draws)


def bootstrap_once(ours, theirs, draws):
    return float(right_score(ours.sum(axis=0)) > right_score(theirs.sum(axis=0)))


FAULTS = {
    "clipped_counts": [
        (counts_unclipped, "The counts are not clipped"),
        (counts_of_sets, "as in a set. One that stands twice"),
        (counts_set_over_all, "but the total by occurrence"),
        (counts_recall, "That is recall"),
        (counts_in_place, "only at the same place"),
        (counts_of_text, "joined without a space"),
        (counts_negative, "a total below zero"),
        (counts_as_share, "must be a tuple of 2, got a number"),
    ],
    "brevity_penalty": [
        (penalty_turned, "the wrong way round"),
        (penalty_with_bonus, "gets a bonus"),
        (penalty_linear, "the ratio c / r itself"),
        (penalty_per_sentence, "mean of the sentences' penalties"),
        (penalty_shortest, "The shortest reference"),
        (penalty_first, "The first reference"),
        (penalty_longer_of_equal, "the longer is taken"),
    ],
    "corpus": [
        (corpus_mean, "mean of the sentences' scores"),
        (corpus_arithmetic, "The arithmetic mean"),
        (corpus_without_penalty, "brevity penalty is missing"),
        (corpus_turned_penalty, "the wrong way round"),
        (corpus_fraction, "from 0 to 1"),
        (corpus_product, "fourth root is missing"),
        (corpus_dividing_by_zero, "raised ValueError"),
    ],
    "split_compounds": [
        (split_everywhere, "Every hyphen is replaced"),
        (split_overlapping, "goes on behind: the second stays"),
        (split_without_marks, "marks ##AT## are missing"),
        (split_letters, "between the letters a to z"),
        (split_word_characters, "between letters or digits"),
        (split_first, "Only the first hyphen"),
        (split_to_words, "must be a str, got a list"),
    ],
    "bootstrap": [
        (bootstrap_reversed, "ours must be the higher one"),
        (bootstrap_with_ties, "A tie is counted as won"),
        (bootstrap_of_means, "scores of the sentences are averaged"),
        (bootstrap_of_ours, "keeps its whole file"),
        (bootstrap_without_penalty, "brevity penalty is missing"),
        (bootstrap_once, "The draws are not used"),
    ],
}
