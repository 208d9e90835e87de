"""Which micro-batches belong to which update, and to which rank of it."""

from collections.abc import Iterator

from minitransformer.text import Batch, BatchStream
from minitransformer.text.bpe_dropout import RedrawnStream


class MicroBatches:
    """The micro-batches of ``stream``, ``per_update`` for each update, which are dealt out to the ranks in turn.

    Updates are counted from 1, micro-batches from 0.
    """

    def __init__(self, stream: BatchStream | RedrawnStream, per_update: int, rank: int = 0, size: int = 1):
        self.stream, self.per_update, self.rank, self.size = stream, per_update, rank, size

    def of_rank(self, update: int) -> list[Batch]:
        """The micro-batches of this rank: numbers rank, rank + size, rank + 2 size... of the update."""
        numbers = self._numbers(update)[self.rank :: self.size]
        return [stream.batch(number) for stream, number in map(self.stream.find, numbers)]

    def n_tgt_tokens(self, update: int) -> int:
        """Target tokens of all ranks, without padding."""
        found = map(self.stream.find, self._numbers(update))
        return sum(stream.n_tgt_tokens(number) for stream, number in found)

    def epoch(self, update: int) -> int:
        """The epoch, counted from 1, in which ``update`` begins."""
        return self.stream.position((update - 1) * self.per_update)[0] + 1

    def shapes(self, updates: int) -> Iterator[tuple[int, int, int]]:
        """(sentences, source positions, target positions) of all micro-batches of the first ``updates`` updates."""
        return map(self.stream.shape, range(updates * self.per_update))

    def _numbers(self, update: int) -> range:
        return range((update - 1) * self.per_update, update * self.per_update)
