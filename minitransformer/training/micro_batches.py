"""Which micro-batches belong to which update, and to which rank of it."""

from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from minitransformer.text import Batch, BatchStream
from minitransformer.text.prefetch import Prefetcher


class MicroBatches:
    """Update u (from 1) is made of micro-batches (u - 1) k to u k - 1 of ``stream``; rank r takes every size-th, from
    number r on. Those of the next updates are built ahead of time.

    per_update: k
    """

    def __init__(self, stream: BatchStream, per_update: int, rank: int = 0, size: int = 1):
        self.stream, self.per_update, self.rank, self.size = stream, per_update, rank, size
        self._prefetcher = Prefetcher(stream, self._own_after)

    def own(self, update: int) -> list[Batch]:
        """The micro-batches of this rank."""
        return [self._prefetcher.batch(number) for number in self._numbers(update)[self.rank :: self.size]]

    def n_tokens(self, update: int) -> tuple[int, int]:
        """(source, target) tokens of all ranks, without padding."""
        src, tgt = np.sum([self.stream.n_tokens(number) for number in self._numbers(update)], axis=0).tolist()
        return src, tgt

    def epoch(self, update: int) -> int:
        """The epoch, counted from 1, in which ``update`` begins."""
        return self.stream.position((update - 1) * self.per_update)[0] + 1

    def shapes_before(self, update: int) -> Iterator[tuple[int, int, int]]:
        """(sentences, source positions, target positions) of all micro-batches of the updates before ``update``."""
        return (self.stream.shape(number) for number in range((update - 1) * self.per_update))

    def _numbers(self, update: int) -> range:
        return range((update - 1) * self.per_update, update * self.per_update)

    def _own_after(self, number: int) -> Iterator[int]:
        """The next micro-batches of this rank after ``number``."""
        own = (other for other in count(number + 1) if other % self.per_update % self.size == self.rank)
        return islice(own, Prefetcher.AHEAD)
