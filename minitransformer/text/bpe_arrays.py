"""The fast twin of `bpe.PairTable`: all words in one array of symbol numbers, a merge some array operations.

Cells of the array hold the symbols of all words, one word after the other with an empty cell between. A merge writes
the new symbol into the left cell, takes the right one out of the chain, and corrects the edges (a cell and its right
neighbour) around it. Half the time of PairTable for 37,000 merges of 32 MB of text (benchmarks/notes.md).
"""

from __future__ import annotations

from array import array
from collections import defaultdict

import numpy as np

from minitransformer.text.bpe import CRITERIA, Pair, Words, backwards_key

BITS = 32
"""A pair is one number: left << BITS | right."""
RIGHT = (1 << BITS) - 1
BETWEEN, TAKEN = -1, -2
"""Symbol of a cell between two words, and of one whose symbol was merged into its left neighbour."""
NO_PAIR = -1
FIRST = np.zeros(1, dtype=np.int64)
FEW = 200
"""Edges up to which a loop over a dict beats sorting."""


class BpeArrays:
    """What `bpe.learn_merges` asks of its table: pairs, entry, strings and merge, with pairs as numbers.

    Pairs seen less often than ``min_count`` are forgotten: a pair's count never rises after the merge that brought it.
    Memory, besides the words given: 40 bytes a symbol of all distinct words.
    """

    def __init__(self, words: Words, criterion: str = "frequency", min_count: int = 2):
        self.score, self.min_count = CRITERIA[criterion], min_count
        self._numbers = _Numbers()
        self.symbol, self.weight = self._cells(words)
        self.names = list(self._numbers)
        places = np.arange(len(self.symbol), dtype=np.int32)
        self.next, self.previous = np.roll(places, -1), np.roll(places, 1)
        self.orders = [backwards_key(name) for name in self.names]
        used = self.symbol >= 0
        self.symbol_counts = np.bincount(self.symbol[used], self.weight[used]).astype(np.int64).tolist()
        self.counts: dict[int, int] = {}
        self.places: dict[int, np.ndarray] = {}
        # Pairs by symbol, for the criterion whose scores rise when a symbol becomes seldomer.
        self.pairs_with: dict[int, set[int]] | None = None if criterion == "frequency" else defaultdict(set)
        self.pair = np.full(len(self.symbol), NO_PAIR, dtype=np.int64)
        self.pair[:-1] = self._pair_of(self.symbol[:-1], self.symbol[1:])
        self._take_in(np.flatnonzero(self.pair != NO_PAIR).astype(np.int32))

    def _cells(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """(symbol number of each cell, how often its word occurs)"""
        symbols, lengths, counts = array("i", [BETWEEN]), array("q", [1]), array("q", [0])
        for word, count in words:
            symbols.extend(map(self._numbers.__getitem__, word))
            symbols.append(BETWEEN)
            lengths.append(len(word) + 1)
            counts.append(count)
        weight = np.repeat(np.asarray(counts, dtype=np.int64), np.asarray(lengths, dtype=np.int64))
        return np.array(symbols, dtype=np.int32), weight

    @staticmethod
    def _pair_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.where((left < 0) | (right < 0), NO_PAIR, left.astype(np.int64) << BITS | right)

    def _take_in(self, at: np.ndarray) -> list[int]:
        """Count the pairs of the cells ``at`` and remember where they are; the ones frequent enough are returned."""
        if not len(at):
            return []
        pairs = self.pair[at]
        order = np.argsort(pairs, kind="stable")
        pairs, at = pairs[order], at[order]
        starts = np.concatenate((FIRST, np.flatnonzero(pairs[1:] != pairs[:-1]) + 1))
        counts = np.add.reduceat(self.weight[at], starts).tolist()
        stops = [*starts[1:].tolist(), len(at)]
        kept = []
        for pair, start, stop, count in zip(pairs[starts].tolist(), starts.tolist(), stops, counts, strict=True):
            if count >= self.min_count:
                self.counts[pair], self.places[pair] = count, at[start:stop].copy()
                kept.append(pair)
                if self.pairs_with is not None:
                    self.pairs_with[pair >> BITS].add(pair)
                    self.pairs_with[pair & RIGHT].add(pair)
        return kept

    def pairs(self) -> list[int]:
        return list(self.counts)

    def strings(self, pair: int) -> Pair:
        return self.names[pair >> BITS], self.names[pair & RIGHT]

    def entry(self, pair: int) -> tuple | None:
        count = self.counts.get(pair, 0)
        if count < self.min_count:
            self.counts.pop(pair, None)
            self.places.pop(pair, None)
            return None
        left, right = pair >> BITS, pair & RIGHT
        score = self.score(count, self.symbol_counts[left], self.symbol_counts[right])
        return -score, self.orders[left], self.orders[right], pair

    def merge(self, pair: int) -> list[int]:
        left, right = pair >> BITS, pair & RIGHT
        at = self._occurrences(pair)
        weight, taken = self.weight[at], self.next[at]
        after, n_symbols = self.next[taken], len(self.names)
        merged = self._new_symbol(left, right, int(weight.sum()))
        self.symbol[taken] = TAKEN
        self._forget(at, taken, weight)
        self.symbol[at], self.next[at], self.previous[after] = merged, after, at
        before = self.previous[at]
        self.pair[at] = self._pair_of(self.symbol[at], self.symbol[after])
        self.pair[before] = self._pair_of(self.symbol[before], self.symbol[at])
        apart = before[(self.symbol[before] >= 0) & (self.symbol[before] != merged)]  # the others are in ``at``
        touched = np.concatenate((apart, at[self.pair[at] != NO_PAIR]))
        if merged < n_symbols:  # known before, in a text that contains an end mark: its pairs may be elsewhere too
            changed = self.pair[np.concatenate((before, at))]
            touched = np.flatnonzero(np.isin(self.pair, changed[changed != NO_PAIR]))
        risen = self._take_in(touched)
        return risen if self.pairs_with is None else self._pairs_with(left, right, merged)

    def _occurrences(self, pair: int) -> np.ndarray:
        """The cells where ``pair`` begins; of overlapping ones every second from the left."""
        at = self.places.pop(pair)
        del self.counts[pair]
        at = at[self.pair[at] == pair]
        if pair >> BITS != pair & RIGHT:
            return at
        chosen, taken = [], None
        for here, following in zip(np.sort(at).tolist(), self.next[np.sort(at)].tolist(), strict=True):
            if here != taken:
                chosen.append(here)
                taken = following
        return np.array(chosen, dtype=np.int32)

    def _new_symbol(self, left: int, right: int, count: int) -> int:
        name = self.names[left] + self.names[right]
        merged = self._numbers[name]
        if merged == len(self.names):
            self.names.append(name)
            self.orders.append(backwards_key(name))
            self.symbol_counts.append(0)
        for symbol, change in ((left, -count), (right, -count), (merged, count)):
            self.symbol_counts[symbol] += change
        return merged

    def _forget(self, at: np.ndarray, taken: np.ndarray, weight: np.ndarray) -> None:
        """Subtract the pairs to the left and to the right of the merged cells; between two of these only once."""
        before = self.previous[at]
        outside = self.symbol[before] >= 0  # not a word's beginning, and not the right cell of another merge
        pairs = np.concatenate((self.pair[before[outside]], self.pair[taken]))
        weight = np.concatenate((weight[outside], weight))
        self.pair[taken] = NO_PAIR
        if len(pairs) > FEW:
            pairs, where = np.unique(pairs, return_inverse=True)
            weight = np.bincount(where, weight).astype(np.int64)
        counts = self.counts
        for pair, less in zip(pairs.tolist(), weight.tolist(), strict=True):
            if pair in counts:
                counts[pair] -= less

    def _pairs_with(self, *symbols: int) -> list[int]:
        """The pairs of these symbols that may be merged; the others are forgotten."""
        found = set()
        for symbol in symbols:
            alive = {pair for pair in self.pairs_with[symbol] if self.entry(pair)}
            self.pairs_with[symbol] = alive
            found |= alive
        return list(found)


class _Numbers(dict):
    """Numbers symbols in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number
