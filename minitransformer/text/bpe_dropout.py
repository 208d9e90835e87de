"""BPE dropout: text that is segmented again in each training epoch, and its batches  [Provilkov et al. 2020]."""

import random
from collections.abc import Callable, Sequence
from functools import lru_cache

from minitransformer.text.batching import BatchStream
from minitransformer.text.pairs import SentencePairs
from minitransformer.text.tokenizer import Tokenizer


def draw_pairs(
    epoch: int,
    tokenizer: Tokenizer,
    lines: Sequence[Sequence[str]],
    plain: SentencePairs,
    p_drop: float,
    seed: int,
    longest: int,
) -> SentencePairs:
    """The ids of both sides as drawn in an epoch, each line from (seed, epoch, line, side) and nothing else.

    lines, plain: the text, and its ids without dropout   p_drop: of a possible merge, see `bpe.py`
    longest: tokens including EOS; a line that is drawn longer stays plain in this epoch
    """

    def segment(side: int, row: int) -> list[int]:
        draw = random.Random(f"{seed} {epoch} {row} {side}").random
        ids = encoders[side].encode_with_dropout(lines[side][row], p_drop, draw)
        return ids if len(ids) < longest else plain[side][row]

    encoders, rows = (tokenizer, tokenizer.target), range(len(lines[0]))
    return [segment(0, row) for row in rows], [segment(1, row) for row in rows]


class RedrawnStream:
    """As `BatchStream`, with pairs that are drawn again in each epoch and batched by their new lengths.

    The number of batches varies a little. So that any batch is found without going through the epochs before it, each
    epoch takes as many as the first has: it leaves out its last ones, or takes its first ones twice, in shuffled order.

    draw: epoch, counted from 0 -> (source, target) sentences   budgets: of `BatchStream`, and its seed
    """

    def __init__(self, draw: Callable[[int], SentencePairs], **budgets: int):
        self._of_epoch = lru_cache(2)(lambda epoch: BatchStream(*draw(epoch), **budgets))
        self.batches_per_epoch = self._of_epoch(0).batches_per_epoch

    def position(self, number: int) -> tuple[int, int]:
        return divmod(number, self.batches_per_epoch)

    def find(self, number: int) -> tuple[BatchStream, int]:
        """The stream of the epoch of micro-batch ``number``, and its number there."""
        epoch, index = self.position(number)
        stream = self._of_epoch(epoch)
        return stream, epoch * stream.batches_per_epoch + index % stream.batches_per_epoch

    def shape(self, number: int) -> tuple[int, int, int]:
        """As if all epochs had the pairs of the first: for the FLOPs of a run, its epochs need not be drawn."""
        return self._of_epoch(0).shape(number)
