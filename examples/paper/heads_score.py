"""How well heads do what a pattern asks for: the share of attention, and what it is compared with."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from examples.paper.seeds import LEVEL, paired

SHUFFLES, FEWEST, LONGEST, SHOWN = 200, 10, 60, 16
"""Shuffles for the baseline; the number of words below which nothing is claimed; the lengths, in words, above which a
sentence is left out, and above which it is not chosen for a picture."""


class Distances:
    """The mean attention of every head to words at each distance.

    sums: (L, H, 2 * LONGEST + 1), of the distances -LONGEST to LONGEST   counts: (2 * LONGEST + 1,)
    """

    def __init__(self) -> None:
        self.sums, self.counts = np.zeros(1), np.zeros(2 * LONGEST + 1)

    def add(self, weights: np.ndarray) -> None:
        """Add the weights between the words of a sentence, (L, H, Wq, Wk)."""
        n_layers, n_heads, n_queries, n_keys = weights.shape
        if self.sums.ndim == 1:
            self.sums = np.zeros((n_layers, n_heads, 2 * LONGEST + 1))
        for distance in range(1 - n_queries, n_keys):
            diagonal = np.diagonal(weights, distance, axis1=2, axis2=3)
            self.sums[:, :, LONGEST + distance] += diagonal.sum(axis=-1)
            self.counts[LONGEST + distance] += diagonal.shape[-1]

    def at(self, layer: int, head: int, distances: np.ndarray) -> np.ndarray:
        return (self.sums[layer, head] / np.maximum(self.counts, 1))[LONGEST + distances]


class Found(NamedTuple):
    """One word that a pattern applies to.

    weights: its attention to each source word, by layer and head, (L, H, W)   wanted: the word it should attend to
    """

    sentence: int
    query: int
    wanted: int
    weights: np.ndarray


class Score(NamedTuple):
    """The best head of a pattern, counted from 1, and what it gives to the wanted words of ``n`` others.

    same_distance: what it gives to any word at that distance, or NaN   shuffled: the share with shuffled keys
    example: all words that the pattern applies to in one sentence
    """

    layer: int
    head: int
    n: int
    share: float
    same_distance: float
    shuffled: float
    is_found: bool
    example: list[Found]


def score(found: Sequence[Found], rng: np.random.Generator, distances: Distances | None = None) -> Score | None:
    """Choose the head by the even-numbered sentences, measure it by the odd ones; None if there are too few.

    distances: what the same head gives at each distance, or None for a pattern of distance
    """
    choosing, measuring = ([each for each in found if each.sentence % 2 == odd] for odd in (0, 1))
    if min(len(choosing), len(measuring)) < FEWEST:
        return None
    shares = np.mean([each.weights[:, :, each.wanted] for each in choosing], axis=0)  # (L, H)
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    own = [each.weights[layer, head] for each in measuring]
    shares = np.array([row[each.wanted] for row, each in zip(own, measuring, strict=True)])
    lengths = np.array([len(row) for row in own])
    drawn = np.cumsum(lengths) - 1 - (rng.random((SHUFFLES, len(own))) * lengths).astype(int)
    shuffled = np.concatenate(own)[drawn].mean(axis=1)  # (SHUFFLES,)
    is_found = shares.mean() > max(shuffled.max(), 2 * shuffled.mean())
    at_distance = np.full(len(own), np.nan)
    if distances:
        at_distance = distances.at(layer, head, np.array([each.wanted - each.query for each in measuring]))
        t, p = paired(shares - at_distance)
        is_found &= t > 0 and p < LEVEL
    figures = (float(each.mean()) for each in (shares, at_distance, shuffled))
    example = best_sentence(measuring, layer, head)
    return Score(layer + 1, head + 1, len(measuring), *figures, bool(is_found), example)


def best_sentence(found: Sequence[Found], layer: int, head: int) -> list[Found]:
    """What was found in the sentence where the head gives most to all wanted words together: one of at most SHOWN
    words, if there is such a sentence."""
    sentences = defaultdict(list)
    for each in found:
        sentences[each.sentence].append(each)

    def given(sentence: list[Found]) -> tuple[bool, float]:
        fits = len(sentence[0].weights[layer, head]) <= SHOWN
        return fits, sum(each.weights[layer, head, each.wanted] for each in sentence)

    return max(sentences.values(), key=given)
