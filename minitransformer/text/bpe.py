"""Byte-pair encoding: learn which neighbouring symbols to merge, and merge them in new words  [sec. 5.1]."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

Pair = tuple[str, str]


def learn_merges(words: Iterable[tuple[list[str], int]], *, min_frequency: int = 2) -> Iterator[Pair]:
    """Yield the merges in the order they are learned; stop when no pair is left  [Sennrich et al. 2016, alg. 1].

    Each time the most frequent pair of neighbouring symbols becomes one symbol, everywhere. Of equally frequent
    pairs the one whose strings sort last is taken, so the result depends on nothing but the table.

    words: the symbols of every distinct word, and how often the word occurs
    min_frequency: a pair seen less often is not merged (occurrences)

    Counting anew after every merge would read all words thousands of times. Here a merge touches only the words
    that hold its pair, and corrects the counts of the neighbours it changes.
    """
    table = PairTable(words)
    queue = [_entry(pair, count) for pair, count in table.counts.items()]
    heapq.heapify(queue)
    while queue:
        negative, _, _, pair = heapq.heappop(queue)
        count = table.counts[pair]
        if count != -negative:
            # The entry is out of date. Counts that rose have a newer entry; those that fell get theirs now.
            if min_frequency <= count < -negative:
                heapq.heappush(queue, _entry(pair, count))
            continue
        if count < min_frequency:
            return
        yield pair
        for changed in table.merge(pair):
            heapq.heappush(queue, _entry(changed, table.counts[changed]))


class PairTable:
    """How often each pair of neighbouring symbols occurs, and in which words, kept true while words change."""

    def __init__(self, words: Iterable[tuple[list[str], int]]):
        self.words: list[list[str]] = []
        self.frequencies: list[int] = []
        self.counts: dict[Pair, int] = defaultdict(int)
        # A word stands here once for every time it got the pair, and stays when it loses it.
        self.holders: dict[Pair, list[int]] = defaultdict(list)
        for number, (symbols, frequency) in enumerate(words):
            self.words.append(list(symbols))
            self.frequencies.append(frequency)
            for pair in zip(symbols, symbols[1:], strict=False):
                self.counts[pair] += frequency
                self.holders[pair].append(number)

    def merge(self, pair: Pair) -> list[Pair]:
        """Make ``pair`` one symbol in all words; return the pairs that occur more often than before."""
        changes: dict[Pair, int] = defaultdict(int)
        for number in set(self.holders.pop(pair)):
            self._merge_in_word(number, pair, changes)
        risen = []
        for changed, change in changes.items():
            if change:
                self.counts[changed] += change
                if change > 0:
                    risen.append(changed)
        return risen

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
            at += 1


def apply_merges(symbols: list[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Merge the symbols of one word as training would have: always the pair learned first, everywhere in the word.

    ranks: pair -> its place in the order of learning
    """
    while len(symbols) > 1:
        pairs = set(zip(symbols, symbols[1:], strict=False))
        best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        symbols = _merge_everywhere(symbols, best)
    return symbols


def _merge_everywhere(symbols: list[str], pair: Pair) -> list[str]:
    left, right = pair
    merged, at = [], 0
    while at < len(symbols):
        if symbols[at] == left and symbols[at + 1 : at + 2] == [right]:
            merged.append(left + right)
            at += 2
        else:
            merged.append(symbols[at])
            at += 1
    return merged


def _entry(pair: Pair, count: int) -> tuple:
    """What the queue sorts by: most frequent first, then the pair that sorts last."""
    return -count, _reversed_order(pair[0]), _reversed_order(pair[1]), pair


def _reversed_order(symbol: str) -> tuple[int, ...]:
    """A key that sorts strings backwards; the 1 at the end puts a longer string before its own beginning."""
    return (*(-ord(character) for character in symbol), 1)
