"""Labeled bracket precision, recall and F1 by the conventions of EVALB.      [Black et al. 1991; Collins 1997]

A constituent is (label, first word, last word). Those of a parser's tree that the reference has too, each counted at
most once, are matched:

    precision = matched / constituents of the parser      recall = matched / constituents of the reference
    F1 = 2 precision recall / (precision + recall)        over the whole test set
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from examples.parsing.trees import Tree, base_label, without_traces
from minitransformer.errors import DataError

IGNORED, EQUIVALENT = {"TOP", "ROOT", "S1", ",", ":", "``", "''", "."}, {"PRT": "ADVP"}
"""As EVALB's COLLINS.prm: labels of constituents that are not counted, and tags of words that are left out of every
constituent; labels and tags that count as another. Traces never count."""


@dataclass(frozen=True)
class BracketScore:
    """Counts over a test set; ``+`` adds them. The scores are from 0 to 100.

    skipped: sentences with other words than the reference, or none, which count nowhere else, as in EVALB: a parser
    with many of them looks better than it is
    words: those of the references, without punctuation
    """

    sentences: int = 0
    skipped: int = 0
    matched: int = 0
    predicted: int = 0
    reference: int = 0
    exact: int = 0
    words: int = 0
    correct_tags: int = 0

    def __add__(self, other: "BracketScore") -> "BracketScore":
        return BracketScore(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def precision(self) -> float:
        return _percent(self.matched, self.predicted)

    @property
    def recall(self) -> float:
        return _percent(self.matched, self.reference)

    @property
    def f1(self) -> float:
        return _percent(2 * self.matched, self.predicted + self.reference)

    @property
    def exact_match(self) -> float:
        """Sentences whose constituents are all those of the reference, of those not skipped."""
        return _percent(self.exact, self.sentences - self.skipped)

    @property
    def tagging_accuracy(self) -> float:
        return _percent(self.correct_tags, self.words)


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def corpus_bracket_score(predicted: Iterable[Tree], references: Iterable[Tree]) -> BracketScore:
    """The sum of `bracket_score` over a test set.

    Raises:
        DataError: not as many trees as references, or none.
    """
    total, n_predicted, n_references = BracketScore(), 0, 0
    for tree, reference in zip_longest(predicted, references):
        n_predicted, n_references = n_predicted + (tree is not None), n_references + (reference is not None)
        if n_predicted == n_references:
            total += bracket_score(tree, reference)
    if n_predicted != n_references or not n_references:
        raise DataError(
            f"bracket score: there must be one tree for each reference, at least one, got {n_predicted} trees and "
            f"{n_references} references"
        )
    return total


def bracket_score(predicted: Tree, reference: Tree) -> BracketScore:
    """The counts of one sentence.

    Punctuation is what the reference tags as punctuation. EVALB asks each tree's own tags and skips the sentence if the
    two disagree; then output without tags, where each is XX, could not be scored.
    """
    predicted, gold = without_traces(predicted), without_traces(reference)
    if predicted is None or gold is None or predicted.words() != gold.words():
        return BracketScore(sentences=1, skipped=1)
    is_counted = [tag not in IGNORED for tag in gold.tags()]
    n_before = [0, *accumulate(is_counted)]
    found, expected = (_constituents(tree, n_before) for tree in (predicted, gold))
    tags = ([EQUIVALENT.get(tag, tag) for tag in tree.tags()] for tree in (predicted, gold))
    return BracketScore(
        sentences=1,
        matched=(found & expected).total(),
        predicted=found.total(),
        reference=expected.total(),
        exact=int(found == expected),
        words=n_before[-1],
        correct_tags=sum(ours == theirs for ours, theirs, counted in zip(*tags, is_counted, strict=True) if counted),
    )


def _constituents(tree: Tree, n_before: list[int]) -> Counter[tuple[str, int, int]]:
    """How often a tree has each (label, begin, end) over the counted words.

    n_before[i]: the number of counted words before word i
    """
    found: Counter[tuple[str, int, int]] = Counter()

    def visit(node: Tree, first: int) -> int:
        """first: the number of words before ``node``. Returns the number of words up to its end."""
        if node.word is not None:
            return first + 1
        last = first
        for child in node.children:
            last = visit(child, last)
        label, begin, end = base_label(node.label), n_before[first], n_before[last]
        if label not in IGNORED and begin < end:
            found[EQUIVALENT.get(label, label), begin, end] += 1
        return last

    visit(tree, 0)
    return found
