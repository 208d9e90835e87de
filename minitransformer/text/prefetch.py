"""Batches made ahead of time by a background thread, so that a step never waits for its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from minitransformer.text.batching import Batch, BatchStream


class Prefetcher:
    """``prefetcher.batch(number)`` is ``stream.batch(number)``, most often made already.

    following: number -> the numbers that will be asked for after it, soonest first (default: the next AHEAD ones)

    What is asked for out of order is made when it is asked for. An exception of the stream is raised where its batch
    is asked for. The next epoch is shuffled in a thread of its own while the current one is worked on.
    """

    AHEAD = 8

    def __init__(self, stream: BatchStream, following: Callable[[int], Iterable[int]] | None = None):
        self.stream = stream
        self.following = following or (lambda number: range(number + 1, number + 1 + self.AHEAD))
        self._batches = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._epochs = ThreadPoolExecutor(1, thread_name_prefix="epochs")
        self._made: dict[int, Future[Batch]] = {}
        self._epoch = -1

    def batch(self, number: int) -> Batch:
        wanted = [number, *self.following(number)]
        for other in set(self._made) - set(wanted):
            self._made.pop(other).cancel()
        for other in wanted:
            if other not in self._made:
                self._made[other] = self._batches.submit(self.stream.batch, other)
        batch = self._made.pop(number).result()
        epoch = self.stream.position(number)[0]
        if epoch != self._epoch:
            self._epoch = epoch
            self._epochs.submit(self.stream.prepare, epoch + 1)
        return batch
