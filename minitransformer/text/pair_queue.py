"""Which pair byte-pair encoding merges next."""

import heapq
from collections.abc import Callable

REVERSED = bytes(max(254 - byte, 0) for byte in range(256))
"""Sorts bytes in reverse. UTF-8 sorts as its characters do, and has no byte above 244."""


def reverse_key(symbol: str) -> bytes:
    """A key that sorts strings in reverse; the final 255 puts a longer string before its own prefix."""
    return symbol.encode("utf-8", "surrogatepass").translate(REVERSED) + b"\xff"


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
