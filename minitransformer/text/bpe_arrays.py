"""The fast versions of `bpe.naive_merges` and `bpe.apply_merges`.

Merges are learned with a heap of pairs over arrays of the symbols of all words. Each cell of the arrays
is one symbol; words follow one another with an empty cell between. A merge writes the new symbol into the left cell,
unlinks the right one, and corrects the counts of the pairs around it: cells are linked to their neighbours in both
directions, so only the words that contain the merged pair are touched. Learning 37,000 merges from 32 MB of text takes
3.8 s, 7.5 s with lists and dicts instead of arrays (benchmarks/notes.md).
"""

import heapq
import itertools
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from minitransformer.errors import DataError
from minitransformer.text.bpe import CRITERIA, Pair, Words

BITS = 32
"""A pair is one integer: left << BITS | right."""
RIGHT_MASK = (1 << BITS) - 1
BOUNDARY, MERGED = -1, -2
"""Symbol of a cell between two words, and of a cell whose symbol was merged into its left neighbour."""
NO_PAIR = -1
FIRST = np.zeros(1, dtype=np.int64)
SMALL = 200
"""Number of pairs up to which a loop over a dict is faster than sorting."""
REVERSED = bytes(max(254 - byte, 0) for byte in range(256))
"""Sorts bytes in reverse. UTF-8 sorts as its characters do, and has no byte above 244."""


def learn_merges(words: Words, *, criterion: str = "frequency", min_count: int = 2) -> Iterator[Pair]:
    """Yield the merges in the order in which they are learned, until no pair is left: those of `bpe.naive_merges`.

    Each time, the pair of adjacent symbols that scores highest becomes one symbol, everywhere. Of equal pairs the one
    that sorts last is merged, so the result does not depend on the order of the words.

    criterion: a key of CRITERIA
    min_count: a pair that occurs less often is not merged (occurrences)

    Raises:
        DataError: the criterion is unknown.
    """
    if criterion not in CRITERIA:
        raise DataError(f"bpe: criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    table = BpeArrays(words, criterion, min_count)
    heap = [table.heap_entry(pair) for pair in list(table.counts)]
    heapq.heapify(heap)
    while heap:
        entry = heapq.heappop(heap)
        pair = entry[-1]
        current = table.heap_entry(pair)
        if current != entry:
            # The entry is out of date. A pair whose score rose has a newer one; a pair whose score fell gets one now.
            if current is not None and current > entry:
                heapq.heappush(heap, current)
            continue
        yield table.strings(pair)
        for risen in table.merge(pair):
            heapq.heappush(heap, table.heap_entry(risen))


def apply_merges_by_heap(symbols: list[str], ranks: Mapping[Pair, int]) -> list[str]:
    """`bpe.apply_merges` by a heap of (rank, position) of the pairs that can be merged: n log n steps, not n^2."""
    symbols, end = list(symbols), len(symbols)
    before, after = list(range(-1, end - 1)), list(range(1, end + 1))  # the neighbours of each symbol that is left
    heap = [(ranks[pair], at) for at, pair in enumerate(itertools.pairwise(symbols)) if pair in ranks]
    heapq.heapify(heap)
    while heap:
        rank, at = heapq.heappop(heap)
        right = after[at]
        if right == end or ranks.get((symbols[at], symbols[right])) != rank:
            continue  # one of the two has been merged with another since
        symbols[at], symbols[right] = symbols[at] + symbols[right], None
        after[at] = after[right]
        if after[at] < end:
            before[after[at]] = at
        for left in (before[at], at):
            if left >= 0 and after[left] < end and (pair := (symbols[left], symbols[after[left]])) in ranks:
                heapq.heappush(heap, (ranks[pair], left))
    return [symbol for symbol in symbols if symbol is not None]


def reverse_key(symbol: str) -> bytes:
    """A key that sorts strings in reverse; the final 255 puts a longer string before its own prefix."""
    return symbol.encode("utf-8", "surrogatepass").translate(REVERSED) + b"\xff"


class BpeArrays:
    """How often each pair of adjacent symbols occurs, and where, kept up to date while pairs are merged.

    Symbols and pairs are integers. Pairs that occur less often than ``min_count`` are dropped: the count of a pair
    never rises after the merge that created it. Memory, besides the words given: 40 bytes per symbol of all distinct
    words.
    """

    def __init__(self, words: Words, criterion: str, min_count: int):
        self.score, self.min_count = CRITERIA[criterion], min_count
        self._ids = defaultdict(itertools.count().__next__)  # numbers symbols in the order in which they are first seen
        self.symbol_ids, self.weight = self._cells(words)
        self.symbols = list(self._ids)
        positions = np.arange(len(self.symbol_ids), dtype=np.int32)
        self.next, self.previous = np.roll(positions, -1), np.roll(positions, 1)
        self.sort_keys = [reverse_key(symbol) for symbol in self.symbols]
        used = self.symbol_ids >= 0
        self.symbol_counts = np.bincount(self.symbol_ids[used], self.weight[used]).astype(np.int64).tolist()
        self.counts: dict[int, int] = {}
        self.positions: dict[int, np.ndarray] = {}
        # Pairs by symbol, for the criterion whose scores rise when a symbol becomes rarer.
        self.pairs_with: dict[int, set[int]] | None = None if criterion == "frequency" else defaultdict(set)
        self.pair_ids = np.full(len(self.symbol_ids), NO_PAIR, dtype=np.int64)
        self.pair_ids[:-1] = self._pair_of(self.symbol_ids[:-1], self.symbol_ids[1:])
        self._count_pairs(np.flatnonzero(self.pair_ids != NO_PAIR).astype(np.int32))

    def _cells(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """(symbol id of each cell, how often its word occurs)"""
        symbols, lengths, counts = array("i", [BOUNDARY]), array("q", [1]), array("q", [0])
        for word, count in words:
            symbols.extend(map(self._ids.__getitem__, word))
            symbols.append(BOUNDARY)
            lengths.append(len(word) + 1)
            counts.append(count)
        weight = np.repeat(np.asarray(counts, dtype=np.int64), np.asarray(lengths, dtype=np.int64))
        return np.array(symbols, dtype=np.int32), weight

    @staticmethod
    def _pair_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.where((left < 0) | (right < 0), NO_PAIR, left.astype(np.int64) << BITS | right)

    def _count_pairs(self, at: np.ndarray) -> list[int]:
        """Count the pairs that begin at the cells ``at``, store where they are, and return the frequent ones."""
        if not len(at):
            return []
        pairs = self.pair_ids[at]
        order = np.argsort(pairs, kind="stable")
        pairs, at = pairs[order], at[order]
        starts = np.concatenate((FIRST, np.flatnonzero(pairs[1:] != pairs[:-1]) + 1))
        counts = np.add.reduceat(self.weight[at], starts).tolist()
        stops = [*starts[1:].tolist(), len(at)]
        kept = []
        for pair, start, stop, count in zip(pairs[starts].tolist(), starts.tolist(), stops, counts, strict=True):
            if count >= self.min_count:
                self.counts[pair], self.positions[pair] = count, at[start:stop].copy()
                kept.append(pair)
                if self.pairs_with is not None:
                    self.pairs_with[pair >> BITS].add(pair)
                    self.pairs_with[pair & RIGHT_MASK].add(pair)
        return kept

    def strings(self, pair: int) -> Pair:
        return self.symbols[pair >> BITS], self.symbols[pair & RIGHT_MASK]

    def heap_entry(self, pair: int) -> tuple | None:
        """What the heap sorts by: the highest score first, then the pair that sorts last; None: it is too rare."""
        count = self.counts.get(pair, 0)
        if count < self.min_count:
            self.counts.pop(pair, None)
            self.positions.pop(pair, None)
            return None
        left, right = pair >> BITS, pair & RIGHT_MASK
        score = self.score(count, self.symbol_counts[left], self.symbol_counts[right])
        return -score, self.sort_keys[left], self.sort_keys[right], pair

    def merge(self, pair: int) -> list[int]:
        """Make ``pair`` one symbol in all words; return the pairs whose scores may have risen.

        In ``a b c d``, merging ``b c`` removes one ``a b`` and one ``c d`` and adds ``a bc`` and ``bc d``.
        """
        left, right = pair >> BITS, pair & RIGHT_MASK
        at = self._occurrences(pair)
        weight, right_cells = self.weight[at], self.next[at]
        after, n_symbols = self.next[right_cells], len(self.symbols)
        merged = self._new_symbol(left, right, int(weight.sum()))
        self.symbol_ids[right_cells] = MERGED
        self._subtract_neighbours(at, right_cells, weight)
        self.symbol_ids[at], self.next[at], self.previous[after] = merged, after, at
        before = self.previous[at]
        self.pair_ids[at] = self._pair_of(self.symbol_ids[at], self.symbol_ids[after])
        self.pair_ids[before] = self._pair_of(self.symbol_ids[before], self.symbol_ids[at])
        others = before[(self.symbol_ids[before] >= 0) & (self.symbol_ids[before] != merged)]  # merged ones are in at
        changed = np.concatenate((others, at[self.pair_ids[at] != NO_PAIR]))
        if merged < n_symbols:  # in a text that contains the end mark, a known symbol: its pairs may be elsewhere too
            pairs = self.pair_ids[np.concatenate((before, at))]
            changed = np.flatnonzero(np.isin(self.pair_ids, pairs[pairs != NO_PAIR]))
        risen = self._count_pairs(changed)
        return risen if self.pairs_with is None else self._pairs_with(left, right, merged)

    def _occurrences(self, pair: int) -> np.ndarray:
        """The cells where ``pair`` begins, in ascending order; of overlapping occurrences every second one."""
        at = self.positions.pop(pair)
        del self.counts[pair]
        at = at[self.pair_ids[at] == pair]
        if pair >> BITS != pair & RIGHT_MASK:
            return at
        chosen, right_cell = [], None
        for cell, following in zip(at.tolist(), self.next[at].tolist(), strict=True):
            if cell != right_cell:
                chosen.append(cell)
                right_cell = following
        return np.array(chosen, dtype=np.int32)

    def _new_symbol(self, left: int, right: int, count: int) -> int:
        """The id of ``left`` and ``right`` merged ``count`` times; corrects the counts of the three symbols."""
        text = self.symbols[left] + self.symbols[right]
        merged = self._ids[text]
        if merged == len(self.symbols):
            self.symbols.append(text)
            self.sort_keys.append(reverse_key(text))
            self.symbol_counts.append(0)
        for symbol, change in ((left, -count), (right, -count), (merged, count)):
            self.symbol_counts[symbol] += change
        return merged

    def _subtract_neighbours(self, at: np.ndarray, right_cells: np.ndarray, weight: np.ndarray) -> None:
        """Subtract the pairs to the left and to the right of each merge; a pair between two merges only once."""
        before = self.previous[at]
        outside = self.symbol_ids[before] >= 0  # not the start of a word, nor the right cell of another merge
        pairs = np.concatenate((self.pair_ids[before[outside]], self.pair_ids[right_cells]))
        weight = np.concatenate((weight[outside], weight))
        self.pair_ids[right_cells] = NO_PAIR
        if len(pairs) > SMALL:
            pairs, inverse = np.unique(pairs, return_inverse=True)
            weight = np.bincount(inverse, weight).astype(np.int64)
        for pair, count in zip(pairs.tolist(), weight.tolist(), strict=True):
            if pair in self.counts:
                self.counts[pair] -= count

    def _pairs_with(self, *symbols: int) -> list[int]:
        """The pairs of these symbols that may be merged; the others are dropped."""
        found = set()
        for symbol in symbols:
            alive = {pair for pair in self.pairs_with[symbol] if self.heap_entry(pair)}
            self.pairs_with[symbol] = alive
            found |= alive
        return list(found)
