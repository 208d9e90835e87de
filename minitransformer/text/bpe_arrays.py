"""The fast version of `bpe.apply_merges`, and the arrays from which merges are learned fast (`pair_queue`).

The arrays hold the symbols of all words. Each cell is one symbol; words follow one another with an empty cell between.
A merge writes the new symbol into the left cell, unlinks the right one, and corrects the counts of the pairs around it:
cells are linked to their neighbours in both directions, so only the words that contain the merged pair are touched. A
pair in many cells is merged by NumPy in all of them at once, one in few cells by a loop, since most pairs occur in a
handful (benchmarks/notes.md).
"""

import heapq
import itertools
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from minitransformer.text.bpe import Pair, Words

BITS = 32
"""A pair is one integer: left << BITS | right."""
RIGHT_MASK = (1 << BITS) - 1
BOUNDARY, MERGED = -1, -2
"""Symbol of a cell between two words, and of a cell whose symbol was merged into its left neighbour."""
NO_PAIR = -1
FIRST = np.zeros(1, dtype=np.int64)
FEW = 64
"""Number of cells up to which a loop over them is faster than calls of NumPy."""
Found = tuple[int, int, np.ndarray | list[int]]
"""A pair, how often it occurs, and the cells where it begins."""
REVERSED = bytes(max(254 - byte, 0) for byte in range(256))
"""Sorts bytes in reverse. UTF-8 sorts as its characters do, and has no byte above 244."""


def reverse_key(symbol: str) -> bytes:
    """A key that sorts strings in reverse; the final 255 puts a longer string before its own prefix."""
    return symbol.encode("utf-8", "surrogatepass").translate(REVERSED) + b"\xff"


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


class BpeArrays:
    """How often each pair of adjacent symbols occurs, and where, kept up to date while pairs are merged.

    Symbols and pairs are integers. Pairs that occur less often than ``min_count`` are dropped: the count of a pair
    never rises after the merge that created it. Memory, besides the words given: 60 bytes per symbol of all distinct
    words.
    """

    def __init__(self, words: Words, min_count: int):
        self.min_count = min_count
        self._ids = defaultdict(itertools.count().__next__)  # numbers symbols in the order in which they are first seen
        self.symbol_ids, self.weight = self._cells(words)
        self.symbols = list(self._ids)
        self.sort_keys = [reverse_key(symbol) for symbol in self.symbols]
        cells = np.arange(len(self.symbol_ids), dtype=np.int32)
        self.next, self.previous = np.roll(cells, -1), np.roll(cells, 1)
        # The same memory for loops over few cells: reading one takes half as long.
        self._views = [memoryview(each) for each in (self.symbol_ids, self.weight, self.next, self.previous)]
        used = self.symbol_ids >= 0
        self.symbol_counts = np.bincount(self.symbol_ids[used], self.weight[used]).astype(np.int64).tolist()
        self.total = sum(self.symbol_counts)
        self.counts: dict[int, int] = {}
        self.positions: dict[int, np.ndarray | list[int]] = {}
        self._store(self._pairs_at(cells))

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

    def _pairs_at(self, at: np.ndarray) -> list[Found]:
        """The pairs that begin at the cells ``at``."""
        left, right = self.symbol_ids[at], self.symbol_ids[self.next[at]]
        inside = (left >= 0) & (right >= 0)
        at, pairs = at[inside], left[inside].astype(np.int64) << BITS | right[inside]
        if not len(at):
            return []
        order = np.argsort(pairs)
        pairs, at = pairs[order], at[order]
        starts = np.concatenate((FIRST, np.flatnonzero(pairs[1:] != pairs[:-1]) + 1))
        counts = np.add.reduceat(self.weight[at], starts).tolist()
        parts = map(slice, starts.tolist(), [*starts[1:].tolist(), len(at)])
        return list(zip(pairs[starts].tolist(), counts, map(at.__getitem__, parts), strict=True))

    def _store(self, found: list[Found]) -> list[int]:
        """Store new pairs, except rare ones; return those stored."""
        kept = []
        for pair, count, cells in found:
            if count >= self.min_count:
                self.counts[pair], self.positions[pair] = count, cells
                kept.append(pair)
        return kept

    def strings(self, pair: int) -> Pair:
        return self.symbols[pair >> BITS], self.symbols[pair & RIGHT_MASK]

    def sort_key(self, pair: int) -> tuple[bytes, bytes, int]:
        """Sorts the pair that sorts last first."""
        return self.sort_keys[pair >> BITS], self.sort_keys[pair & RIGHT_MASK], pair

    def score_of(self, pair: int) -> float | None:
        """How often the pair occurs; None: too rarely."""
        count = self.counts.get(pair, 0)
        if count < self.min_count:
            self._drop(pair)
            return None
        return count

    def confirm(self, pair: int) -> bool:
        """Whether `score_of` was the pair's score; False: an upper bound, and from now on it is the score."""
        return True

    def _drop(self, pair: int) -> None:
        self.counts.pop(pair, None)
        self.positions.pop(pair, None)

    def merge(self, pair: int) -> list[int]:
        """Make ``pair`` one symbol in all words; return the pairs whose scores may have risen.

        In ``a b c d``, merging ``b c`` removes one ``a b`` and one ``c d`` and adds ``a bc`` and ``bc d``.
        """
        left, right, cells = pair >> BITS, pair & RIGHT_MASK, self.positions[pair]
        self._drop(pair)
        text = self.symbols[left] + self.symbols[right]
        merged = self._ids[text]
        is_new = merged == len(self.symbols)
        if is_new:
            self.symbols.append(text)
            self.sort_keys.append(reverse_key(text))
            self.symbol_counts.append(0)
        cells = np.sort(cells) if left == right else cells  # overlapping pairs are merged from left to right
        by_loop = left == right or len(cells) <= FEW
        count, found = (self._merge_few if by_loop else self._merge_many)(cells, left, right, merged)
        for symbol, change in ((left, -count), (right, -count), (merged, count)):
            self.symbol_counts[symbol] += change
        self.total -= count
        if is_new:
            self._subtract(found, left, right, merged)
        else:
            found = self._recounted({left, right, merged})
        return self._store(found)

    def _merge_few(self, cells: Sequence[int], left: int, right: int, merged: int) -> tuple[int, list[Found]]:
        """Merge at one cell after the other: (number of occurrences, the pairs that this makes)."""
        symbol_ids, weights, following, previous = self._views
        at = []
        for cell in cells.tolist() if isinstance(cells, np.ndarray) else cells:
            right_cell = following[cell]
            if symbol_ids[cell] == left and symbol_ids[right_cell] == right:  # neither has been merged since
                after = following[right_cell]
                symbol_ids[cell], symbol_ids[right_cell] = merged, MERGED
                following[cell], previous[after] = after, cell
                at.append(cell)
        counts: dict[int, int] = {}
        places: dict[int, list[int]] = {}
        for cell in at:
            weight, before = weights[cell], previous[cell]
            before_id = symbol_ids[before]
            for new, start in (
                (before_id << BITS | merged if before_id != merged else NO_PAIR, before),  # once: with its left cell
                (merged << BITS | symbol_ids[following[cell]], cell),
            ):
                if new in counts:
                    counts[new] += weight
                    places[new].append(start)
                elif new >= 0:  # less next to a boundary
                    counts[new], places[new] = weight, [start]
        found = zip(counts, counts.values(), places.values(), strict=True)
        return sum(map(weights.__getitem__, at)), list(found)

    def _merge_many(self, cells: Sequence[int], left: int, right: int, merged: int) -> tuple[int, list[Found]]:
        """As `_merge_few`, at all cells at once."""
        at = np.asarray(cells, dtype=np.int32)
        at = at[(self.symbol_ids[at] == left) & (self.symbol_ids[self.next[at]] == right)]
        after = self.next[right_cells := self.next[at]]
        self.symbol_ids[at], self.symbol_ids[right_cells] = merged, MERGED
        self.next[at], self.previous[after] = after, at
        before = self.previous[at]
        others = before[self.symbol_ids[before] != merged]  # the merged ones are in at
        return int(self.weight[at].sum()), self._pairs_at(np.concatenate((others, at)))

    def _subtract(self, found: list[Found], left: int, right: int, merged: int) -> None:
        """Subtract the pairs whose places the new ones have taken."""
        for new, count, _ in found:
            first, second = new >> BITS, new & RIGHT_MASK
            old = (right if first == merged else first) << BITS | (left if second == merged else second)
            if old in self.counts:
                self.counts[old] -= count

    def _recounted(self, symbols: set[int]) -> list[Found]:
        """All pairs of the symbols of a merge to a known one: in a text that contains the end mark."""
        for pair in list(self.counts):
            if pair >> BITS in symbols or pair & RIGHT_MASK in symbols:
                self._drop(pair)
        has = np.isin(self.symbol_ids, list(symbols))
        return self._pairs_at(np.flatnonzero(has | has[self.next]).astype(np.int32))
