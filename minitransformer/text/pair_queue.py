"""The fast version of `bpe.naive_merges`: the same merges by a queue of pairs, without counting all words again."""

import heapq
from collections.abc import Callable, Iterator

from minitransformer.errors import DataError
from minitransformer.text.bpe import Pair, Words
from minitransformer.text.bpe_arrays import BpeArrays
from minitransformer.text.word_piece import WordPieceArrays

ARRAYS = {"frequency": BpeArrays, "word_piece": WordPieceArrays}
"""What keeps the scores of each of `bpe.CRITERIA` up to date."""


def learn_merges(words: Words, *, criterion: str = "frequency", min_count: int = 2) -> Iterator[Pair]:
    """Yield the merges in the order in which they are learned, until no pair is left: those of `bpe.naive_merges`.

    Each time, the pair of adjacent symbols that scores highest becomes one symbol, everywhere. Of equal pairs the one
    that sorts last is merged, so the result does not depend on the order of the words.

    criterion: a key of `bpe.CRITERIA`
    min_count: a pair that occurs less often is not merged (occurrences)

    Raises:
        DataError: the criterion is unknown.
    """
    if criterion not in ARRAYS:
        raise DataError(f"bpe: criterion must be one of {', '.join(ARRAYS)}, got {criterion!r}")
    table = ARRAYS[criterion](words, min_count)
    queue = PairQueue(table.score_of, table.sort_key)
    for pair in table.counts:
        queue.push(pair)
    while (best := queue.pop()) is not None:
        if not table.confirm(best):
            queue.push(best)
            continue
        yield table.strings(best)
        for pair in table.merge(best):
            queue.push(pair)


class PairQueue:
    """The pairs that may be merged: the highest score first, of equal ones the pair that sorts last.

    Most pairs never reach the highest score, so pairs are sorted by their symbols only once their score has.
    """

    def __init__(self, score_of: Callable[[int], float | None], sort_key: Callable[[int], tuple[bytes, bytes, int]]):
        self.score_of, self.sort_key = score_of, sort_key
        self._scores: list[float] = []  # heap of negative scores
        self._waiting: dict[float, list[int]] = {}
        self._heaps: dict[float, list[tuple[bytes, bytes, int]]] = {}  # of scores that were the best one

    def push(self, pair: int) -> None:
        score = self.score_of(pair)
        if score in self._heaps:
            heapq.heappush(self._heaps[score], self.sort_key(pair))
        elif score in self._waiting:
            self._waiting[score].append(pair)
        else:
            self._waiting[score] = [pair]
            heapq.heappush(self._scores, -score)

    def pop(self) -> int | None:
        """The pair to be merged next; None: none is left."""
        while self._scores:
            score = -self._scores[0]
            if score in self._waiting:
                self._heaps[score] = list(map(self.sort_key, self._waiting.pop(score)))
                heapq.heapify(self._heaps[score])
            heap = self._heaps[score]
            while heap:
                pair = heapq.heappop(heap)[-1]
                current = self.score_of(pair)
                if current == score:
                    return pair
                if current is not None and current < score:  # it fell; a pair whose score rises is pushed again
                    self.push(pair)
            del self._heaps[score]
            heapq.heappop(self._scores)
        return None
