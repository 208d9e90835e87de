"""Byte-pair encoding: learn which neighbouring symbols to merge, and merge them in new words  [sec. 5.1].

The paper's en-de vocabulary comes from byte-pair encoding, the one of en-fr from word pieces. Both learn merges; they
differ in which pair comes next, the ``criterion``.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from minitransformer.errors import DataError

Pair = tuple[str, str]
Words = Iterable[tuple[list[str], int]]
"""The symbols of every distinct word, and how often the word occurs."""


def frequency_score(pair: int, left: int, right: int) -> float:
    """count(left right)  [Sennrich et al. 2016]"""
    return pair


def word_piece_score(pair: int, left: int, right: int) -> float:
    """count(left right) / (count(left) count(right)): symbols that are seldom seen apart.

    A common reconstruction of word pieces, not the procedure of Wu et al. 2016, who do not print theirs. The bare ratio
    is highest (1) for two symbols seen once in all, so it wants a ``min_count`` well above 1.
    """
    return pair / (left * right)


CRITERIA: dict[str, Callable[[int, int, int], float]] = {"frequency": frequency_score, "word_piece": word_piece_score}


def learn_merges(
    words: Words, *, criterion: str = "frequency", min_count: int = 2, table: type | None = None
) -> Iterator[Pair]:
    """Yield the merges in the order they are learned; stop when no pair is left  [Sennrich et al. 2016, alg. 1].

    Each time the pair of neighbouring symbols that the criterion puts first becomes one symbol, everywhere. Of equal
    pairs the one whose strings sort last is taken, so the result depends on nothing but the table.

    criterion: a key of CRITERIA
    min_count: a pair seen less often is not merged (occurrences)
    table: what counts (default: PairTable; `merge_arrays.BpeArrays` does the same on arrays, faster)

    Counting anew after every merge would read all words thousands of times. Here a merge touches only the words
    that hold its pair, and corrects the counts of the neighbours it changes.
    """
    if criterion not in CRITERIA:
        raise DataError(f"bpe: criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    table = (table or PairTable)(words, criterion, min_count)
    queue = [table.entry(pair) for pair in table.pairs()]
    heapq.heapify(queue)
    while queue:
        entry = heapq.heappop(queue)
        pair = entry[-1]
        now = table.entry(pair)
        if now != entry:
            # The entry is out of date. A pair that rose has a newer one; a pair that fell gets its own now.
            if now is not None and now > entry:
                heapq.heappush(queue, now)
            continue
        yield table.strings(pair)
        for risen in table.merge(pair):
            heapq.heappush(queue, table.entry(risen))


class PairTable:
    """How often each pair of neighbouring symbols occurs, and in which words, kept true while words change."""

    def __init__(self, words: Words, criterion: str = "frequency", min_count: int = 2):
        self.criterion, self.min_count = criterion, min_count
        self.words: list[list[str]] = []
        self.frequencies: list[int] = []
        self.counts: dict[Pair, int] = defaultdict(int)
        self.symbol_counts: dict[str, int] = defaultdict(int)
        # A word stands here once for every time it got the pair, and stays when it loses it.
        self.holders: dict[Pair, list[int]] = defaultdict(list)
        for number, (symbols, frequency) in enumerate(words):
            self.words.append(list(symbols))
            self.frequencies.append(frequency)
            for symbol in symbols:
                self.symbol_counts[symbol] += frequency
            for pair in zip(symbols, symbols[1:], strict=False):
                self.counts[pair] += frequency
                self.holders[pair].append(number)

    def pairs(self) -> list[Pair]:
        """The pairs that may be merged."""
        return [pair for pair, count in self.counts.items() if count >= self.min_count]

    def strings(self, pair: Pair) -> Pair:
        return pair

    def entry(self, pair: Pair) -> tuple | None:
        """What the queue sorts by: the best score first, then the pair that sorts last; None: seen too seldom."""
        left, right = pair
        count = self.counts.get(pair, 0)
        if count < self.min_count:
            return None
        score = CRITERIA[self.criterion](count, self.symbol_counts[left], self.symbol_counts[right])
        return -score, backwards_key(left), backwards_key(right), pair

    def merge(self, pair: Pair) -> list[Pair]:
        """Make ``pair`` one symbol in all words; return the pairs that may have come nearer to being merged."""
        changes: dict[Pair, int] = defaultdict(int)
        for number in set(self.holders.pop(pair)):
            self._merge_in_word(number, pair, changes)
        for changed, change in changes.items():
            self.counts[changed] += change
        if self.criterion == "frequency":
            return [changed for changed, change in changes.items() if change > 0 and self.entry(changed)]
        seldomer = {*pair, pair[0] + pair[1]}  # the fewer a symbol is seen, the more its pairs are worth
        return [other for other in self.pairs() if not seldomer.isdisjoint(other)]

    def _merge_in_word(self, number: int, pair: Pair, changes: dict[Pair, int]) -> None:
        left, right = pair
        merged = left + right
        symbols, frequency = self.words[number], self.frequencies[number]
        at = 0
        while at < len(symbols) - 1:
            if symbols[at] != left or symbols[at + 1] != right:
                at += 1
                continue
            changes[pair] -= frequency
            if at > 0:
                before = symbols[at - 1]
                changes[before, left] -= frequency
                changes[before, merged] += frequency
                self.holders[before, merged].append(number)
            if at + 2 < len(symbols):
                after = symbols[at + 2]
                changes[right, after] -= frequency
                changes[merged, after] += frequency
                self.holders[merged, after].append(number)
            symbols[at : at + 2] = [merged]
            for symbol, change in ((left, -frequency), (right, -frequency), (merged, frequency)):
                self.symbol_counts[symbol] += change
            at += 1


def backwards_key(symbol: str) -> bytes:
    """A key that sorts strings backwards; the 255 at the end puts a longer string before its own beginning."""
    return symbol.encode("utf-8", "surrogatepass").translate(DOWNWARDS) + b"\xff"


DOWNWARDS = bytes(max(254 - byte, 0) for byte in range(256))
"""UTF-8 sorts as its characters do, and has no byte above 244."""


def apply_merges(symbols: list[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Merge the symbols of one word as training would have: always the pair learned first, from left to right.

    ranks: pair -> its place in the order of learning
    """
    symbols, never = list(symbols), len(ranks)
    learned = [ranks.get(pair, never) for pair in zip(symbols, symbols[1:], strict=False)]
    while learned and (first := min(learned)) != never:
        at = learned.index(first)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        del learned[at]
        if at > 0:
            learned[at - 1] = ranks.get((symbols[at - 1], symbols[at]), never)
        if at < len(learned):
            learned[at] = ranks.get((symbols[at], symbols[at + 1]), never)
    return symbols
