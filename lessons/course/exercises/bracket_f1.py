"""Exercise of lesson 19: F1 over the constituents of a test set."""

from collections import Counter
from statistics import mean

from course.exercise import Exercise, Mistake
from course.exercises.tree_forms import CHAIN, IT_RAINS, changed, random_tree
from solutions.lesson_19 import constituents, f1


def f1_inputs(rng):
    yield [IT_RAINS], [IT_RAINS]
    yield [("S", *CHAIN[1][1:])], [CHAIN]
    yield [None, CHAIN], [IT_RAINS, CHAIN]
    yield [CHAIN, IT_RAINS], [IT_RAINS, CHAIN]
    for _ in range(4):
        references = [random_tree(rng) for _ in range(4)]
        yield [*(relabeled(rng, tree) for tree in references[1:]), None], [*references[1:], references[0]]
    yield [("NP", ("NP", ("NN", "it"))), IT_RAINS], [("NP", ("NN", "it")), IT_RAINS]


def relabeled(rng, tree):
    """``tree`` with some other labels, and some constituents whose parts are their parents'."""

    def constituent(label, parts):
        kept = [each for part in parts for each in (part[1:] if part[0] == "LOST" else [part])]
        return (str(rng.choice([label, label, "NP", "LOST"])), *kept)

    found = changed(tree, constituent)
    return ("S", *found[1:]) if found[0] == "LOST" else found


def f1_by(trees, references, *, read=constituents, count=Counter, score=lambda m, p, r: 200 * m / (p + r)):
    """F1 with what each mistake changes."""
    pairs = [
        (count(read(tree) if tree else []), count(read(right))) for tree, right in zip(trees, references, strict=True)
    ]
    found, expected = (sum(each.total() for each in side) for side in zip(*pairs, strict=True))
    return score(sum((found & right).total() for found, right in pairs), found, expected)


F1 = Exercise(
    "19_parsing.f1",
    f1_inputs,
    reference=f1,
    tested="nine test sets, with ill-formed trees and with constituents of one label over the same words",
    mistakes=(
        Mistake(
            "It is a share, from 0 to 1; give it in percent.", lambda trees, references: f1(trees, references) / 100
        ),
        Mistake(
            "It is the mean of the sentences' F1. Add up the counts of all sentences first, then divide.",
            lambda trees, references: mean(f1([tree], [right]) for tree, right in zip(trees, references, strict=True)),
        ),
        Mistake(
            "Constituents of different sentences are matched with each other; a match is within one sentence.",
            lambda trees, references: f1_by(
                [trees], [references], read=lambda side: [each for tree in side if tree for each in constituents(tree)]
            ),
        ),
        Mistake(
            "Of several constituents over the same words with one label only one counts; each should.",
            lambda trees, references: f1_by(trees, references, count=lambda found: Counter(set(found))),
        ),
        Mistake(
            "The labels are not compared: a match has the same label, first word and end.",
            lambda trees, references: f1_by(
                trees, references, read=lambda tree: [each[1:] for each in constituents(tree)]
            ),
        ),
        Mistake(
            "It is the mean of precision and recall; F1 is their harmonic mean, 2PR / (P + R).",
            lambda trees, references: f1_by(
                trees, references, score=lambda m, p, r: 50 * (m / p if p else 0) + 50 * m / r
            ),
        ),
        Mistake(
            "It is the precision alone: matched of those found. A tree with few brackets would look good.",
            lambda trees, references: f1_by(trees, references, score=lambda m, p, r: 100 * m / p if p else 0.0),
        ),
        Mistake(
            "It is the recall alone: matched of those expected. A tree with many brackets would look good.",
            lambda trees, references: f1_by(trees, references, score=lambda m, p, r: 100 * m / r),
        ),
        Mistake(
            "A sentence without a tree is left out. It has found nothing, and what was expected there counts.",
            lambda trees, references: f1(
                *zip(*[pair for pair in zip(trees, references, strict=True) if pair[0]], strict=True)
            ),
        ),
    ),
)
