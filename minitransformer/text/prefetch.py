"""Batches built ahead of time by a background thread, so that an update does not wait for its data."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from minitransformer.text.batching import Batch, BatchStream


class Prefetcher:
    """``prefetcher.batch(number)`` is ``stream.batch(number)``, in most cases built already.

    following: number -> the numbers that will be requested after it, soonest first (default: the next AHEAD numbers)

    A batch requested out of order is built on request. An exception of the stream is raised when its batch is
    requested. The next epoch is shuffled by a separate thread while the current one is in use.
    """

    AHEAD = 8

    def __init__(self, stream: BatchStream, following: Callable[[int], Iterable[int]] | None = None):
        self.stream = stream
        self.following = following or (lambda number: range(number + 1, number + 1 + self.AHEAD))
        self._batches = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._epochs = ThreadPoolExecutor(1, thread_name_prefix="epochs")
        self.pending: dict[int, Future[Batch]] = {}
        self._epoch = -1

    def batch(self, number: int) -> Batch:
        wanted = [number, *self.following(number)]
        for other in set(self.pending) - set(wanted):
            self.pending.pop(other).cancel()
        for other in wanted:
            if other not in self.pending:
                self.pending[other] = self._batches.submit(self.stream.batch, other)
        batch = self.pending.pop(number).result()
        epoch = self.stream.position(number)[0]
        if epoch != self._epoch:
            self._epoch = epoch
            self._epochs.submit(self.stream.prepare, epoch + 1)
        return batch
