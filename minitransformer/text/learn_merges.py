"""The fast version of `bpe.naive_merges`: the same merges, without counting all words again after each of them."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from minitransformer.errors import DataError
from minitransformer.text.bpe import CRITERIA, SymbolPair, Words

REVERSED = bytes(max(254 - byte, 0) for byte in range(256))
"""Sorts bytes in reverse. UTF-8 sorts as its characters do, and has no byte above 244."""


def learn_merges(words: Words, *, criterion: str = "frequency", min_count: int = 2) -> Iterator[SymbolPair]:
    """Yield the merges in the order in which they are learned, until no pair is left: those of `bpe.naive_merges`.

    Each time, the pair of adjacent symbols that scores highest becomes one symbol, everywhere. Among equal pairs the
    one that sorts last is merged, so the result does not depend on the order of the words.

    criterion: a key of `bpe.CRITERIA`; its score must not exceed that of a pair whose symbols occur nowhere else
    min_count: a pair that occurs less often is not merged (occurrences)

    Raises:
        DataError: the criterion is unknown.
    """
    if criterion not in CRITERIA:
        raise DataError(f"bpe: criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    table = PairTable(words)
    queue = PairQueue(table, criterion, min_count)
    for pair in table.counts:
        queue.push(pair)
    while (best := queue.pop()) is not None:
        yield best
        for pair in table.merge(best) | queue.may_score_more(best):
            queue.push(pair)


class PairQueue:
    """A heap of the pairs by their scores. A score that has fallen is noticed when its pair comes first; a pair whose
    score rises is pushed again."""

    def __init__(self, table: "PairTable", criterion: str, min_count: int):
        self._table, self._score, self._min_count = table, CRITERIA[criterion], min_count
        self._may_rise = criterion != "frequency"  # the rarer its symbols become, the more a pair gains
        self._most = table.total  # symbols at first
        self._scored: dict[str, set[SymbolPair]] = defaultdict(set)  # by symbol; queued by score
        self._heap: list[tuple] = []

    def push(self, pair: SymbolPair) -> None:
        """Queue the pair's score or, before that has ever been needed, what the score cannot exceed."""
        left, right = pair
        if (count := self._table.counts[pair]) >= self._min_count:
            is_scored = not self._may_rise or pair in self._scored[left]
            score = self._score_of(pair) if is_scored else self._score(count, count, count, self._most)
            heapq.heappush(self._heap, (-score, reverse_key(left), reverse_key(right), pair))

    def pop(self) -> SymbolPair | None:
        """The pair to be merged next; None if none is left."""
        while self._heap:
            queued, *_, pair = heapq.heappop(self._heap)
            if self._table.counts.get(pair, 0) < self._min_count:
                continue
            if (score := self._score_of(pair)) == -queued:
                return pair
            if score < -queued:
                for symbol in pair:
                    self._scored[symbol].add(pair)
                self.push(pair)
        return None

    def may_score_more(self, merged: SymbolPair) -> set[SymbolPair]:
        """The pairs whose scores rise because the symbols of ``merged`` have become rarer."""
        return self._scored[merged[0]] | self._scored[merged[1]] if self._may_rise else set()

    def _score_of(self, pair: SymbolPair) -> float:
        table, (left, right) = self._table, pair
        return self._score(table.counts[pair], table.symbol_counts[left], table.symbol_counts[right], table.total)


@cache
def reverse_key(symbol: str) -> bytes:
    """A key that sorts strings in reverse; the final 255 puts a longer string before its own prefix."""
    return symbol.encode("utf-8", "surrogatepass").translate(REVERSED) + b"\xff"


class PairTable:
    """How often each pair of adjacent symbols occurs, and in which words, kept up to date while pairs are merged.

    Attributes:
        counts: occurrences of each pair.
        symbol_counts, total: occurrences of each symbol, and of all.
    """

    def __init__(self, words: Words):
        self.counts: dict[SymbolPair, int] = defaultdict(int)
        self.symbol_counts: dict[str, int] = defaultdict(int)
        self._words: list[list[str]] = []
        self._occurrences: list[int] = []  # of each word
        self._where: dict[SymbolPair, list[int]] = defaultdict(list)  # the words that have, or once had, the pair
        for number, (symbols, count) in enumerate(words):
            self._words.append(list(symbols))
            self._occurrences.append(count)
            for symbol in symbols:
                self.symbol_counts[symbol] += count
            for pair in pairwise(symbols):
                self.counts[pair] += count
                self._where[pair].append(number)
        self.total = sum(self.symbol_counts.values())

    def merge(self, pair: SymbolPair) -> set[SymbolPair]:
        """Make ``pair`` one symbol in all words; return the pairs that occur more often now.

        In ``a b c d``, merging ``b c`` removes one ``a b`` and one ``c d`` and adds ``a bc`` and ``bc d``.
        """
        (left, right), merged, risen = pair, "".join(pair), set()
        here, before, after = [], defaultdict(list), defaultdict(list)  # words, once for each place; by the neighbor
        for number in self._where.pop(pair):
            symbols, at = self._words[number], 0
            while at < len(symbols) - 1:
                if symbols[at] == left and symbols[at + 1] == right:
                    symbols[at : at + 2] = [merged]
                    here.append(number)
                    if at:
                        before[symbols[at - 1]].append(number)
                    if at + 1 < len(symbols):
                        after[symbols[at + 1]].append(number)
                at += 1
        changes = [((symbol, left), (symbol, merged), numbers) for symbol, numbers in before.items()]
        changes += [((right, symbol), (merged, symbol), numbers) for symbol, numbers in after.items()]
        for old, new, numbers in changes:
            count = self._sum(numbers)
            self.counts[old] -= count
            self.counts[new] += count
            self._where[new] += numbers
            risen.add(new)
        del self.counts[pair]
        count = self._sum(here)
        for symbol, change in ((left, -count), (right, -count), (merged, count)):
            self.symbol_counts[symbol] += change
        self.total -= count
        return risen

    def _sum(self, numbers: list[int]) -> int:
        """How often these words occur in total."""
        return sum(map(self._occurrences.__getitem__, numbers))
