"""Sentences of similar length grouped into padded batches, in an order determined by the seed  [sec. 5.1]."""

import threading
from collections.abc import Sequence

import numpy as np

from minitransformer.batch import Batch, check_aligned, pad_batch
from minitransformer.config import PAD
from minitransformer.errors import DataError
from minitransformer.text.binary import lengths_of


class BatchStream:
    """All micro-batches of a training run, numbered from 0; each is a function of (seed, number) only.

    In every epoch each pair occurs once. The pairs are shuffled, then sorted by approximate length (target, then
    source) and split so that no batch exceeds its token budgets; then the batches are shuffled.

    Sorting and splitting both use lengths rounded up by `rounded_up`. Sorted, these are the same in every epoch, and so
    are the splits: only which of the equally long pairs falls into which batch changes. An epoch therefore always has
    ``batches_per_epoch`` batches, and any batch is found without going through the epochs before it. Only the sentences
    of the requested batch are read.

    src, tgt: token ids of each sentence, without BOS and EOS; lists, or memory-mapped `binary.MappedSentences`
    src_tokens, tgt_tokens: maximum number of positions of a batch, including padding and EOS (BOS): B*S and B*T
    seed: determines the order of the data, 0 or more

    Raises:
        DataError: there are no pairs, the sides have different numbers of sentences, or a sentence exceeds a budget.
    """

    def __init__(
        self,
        src: Sequence[Sequence[int]],
        tgt: Sequence[Sequence[int]],
        *,
        src_tokens: int,
        tgt_tokens: int,
        seed: int,
    ) -> None:
        check_aligned("BatchStream", src, tgt)
        self.src, self.tgt, self.seed = src, tgt, seed
        self.src_lengths = _lengths("source", src, "src_tokens", src_tokens)
        self.tgt_lengths = _lengths("target", tgt, "tgt_tokens", tgt_tokens)
        self._bucket_of, buckets = _length_buckets(self.src_lengths, self.tgt_lengths, src_tokens, tgt_tokens)
        self._splits = _split_points(buckets, src_tokens, tgt_tokens)
        self._epochs: dict[int, list[np.ndarray]] = {}
        self._lock = threading.Lock()

    @property
    def batches_per_epoch(self) -> int:
        return len(self._splits) + 1

    def position(self, number: int) -> tuple[int, int]:
        """(epoch, index in that epoch) of micro-batch ``number``, all counted from 0."""
        return divmod(number, self.batches_per_epoch)

    def batch(self, number: int) -> Batch:
        """Micro-batch ``number``, counted from 0 over all epochs.

        Raises:
            DataError: a sentence of it contains the id of padding.
        """
        rows = self.rows(number)
        batch = pad_batch([self.src[row] for row in rows], [self.tgt[row] for row in rows], rows)
        if (batch.n_src_tokens, batch.n_tgt_tokens) != self.n_tokens(number):
            row = next(row for row in rows if PAD in self.src[row] or PAD in self.tgt[row])
            raise DataError(
                f"BatchStream: sentences must have no padding (id {PAD}) in them, got some in row {row} (counted from "
                "0); take another id, or binarise the text again"
            )
        return batch

    def rows(self, number: int) -> np.ndarray:
        """Indices in the corpus of the pairs of micro-batch ``number``."""
        epoch, index = self.position(number)
        return self.prepare(epoch)[index]

    def shape(self, number: int) -> tuple[int, int, int]:
        """(sentences, source positions, target positions) of micro-batch ``number``, without building the batch."""
        rows = self.rows(number)
        return len(rows), int(self.src_lengths[rows].max()), int(self.tgt_lengths[rows].max())

    def n_tokens(self, number: int) -> tuple[int, int]:
        """(source, target) tokens without padding of micro-batch ``number``, without building the batch."""
        rows = self.rows(number)
        return int(self.src_lengths[rows].sum()), int(self.tgt_lengths[rows].sum())

    def prepare(self, epoch: int) -> list[np.ndarray]:
        """`epoch`, cached until the epoch after the next is requested; a thread may call this ahead of time."""
        with self._lock:
            if epoch not in self._epochs:
                kept = {each: rows for each, rows in self._epochs.items() if each == epoch - 1}
                self._epochs = kept | {epoch: self.epoch(epoch)}
            return self._epochs[epoch]

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The rows of each micro-batch of an epoch (counted from 0), in order."""
        rng = np.random.default_rng((self.seed, epoch))
        rows = rng.permutation(len(self.src)).astype(np.int32)  # there may be millions: 32 bits save memory
        rows = rows[np.argsort(self._bucket_of[rows], kind="stable")]  # for 16-bit integers a radix sort
        batches = np.split(rows, self._splits)
        return [batches[index] for index in rng.permutation(len(batches))]


Bucket = tuple[int, int, int]
"""Rounded source length, rounded target length, and how many pairs have these lengths."""


def _length_buckets(
    src_lengths: np.ndarray, tgt_lengths: np.ndarray, src_tokens: int, tgt_tokens: int
) -> tuple[np.ndarray, list[Bucket]]:
    """(the number of each pair's bucket, (pairs,) uint16; the buckets that have pairs, in the order of their numbers)

    They are sorted by target, then by source length. Source lengths increase within one target length and decrease
    within the next, so that a batch that spans two target lengths contains no jump (about 1.5 % less padding than with
    source lengths that always increase).
    """
    src_rank, src_values = _ranks(src_lengths, src_tokens)
    tgt_rank, tgt_values = _ranks(tgt_lengths, tgt_tokens)
    n_src = len(src_values)
    decreasing = tgt_rank % 2 == 1
    src_rank[decreasing] = n_src - 1 - src_rank[decreasing]
    # There are at most 16 + 8 * 27 rounded lengths below 2^31, so fewer than 2^16 buckets.
    numbers = tgt_rank * np.uint16(n_src) + src_rank
    counts, buckets = np.bincount(numbers), []
    for number in np.flatnonzero(counts).tolist():
        tgt, src = divmod(number, n_src)
        src = n_src - 1 - src if tgt % 2 else src
        buckets.append((int(src_values[src]), int(tgt_values[tgt]), int(counts[number])))
    return numbers, buckets


def _ranks(lengths: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """(rank of each rounded length among the rounded lengths that occur, these lengths)"""
    rounded = rounded_up(np.arange(int(lengths.max()) + 1), budget)
    values = np.unique(rounded[np.bincount(lengths) > 0])
    return np.searchsorted(values, rounded).astype(np.uint16)[lengths], values


def _lengths(side: str, seqs: Sequence[Sequence[int]], option: str, budget: int) -> np.ndarray:
    """Number of tokens of each sentence, including EOS (or BOS)."""
    lengths = lengths_of(seqs) + 1
    row = int(lengths.argmax())
    if lengths[row] > budget:
        raise DataError(
            f"BatchStream: every {side} sentence must fit into {option} = {budget}, got {lengths[row]} tokens "
            f"in row {row} (counted from 0; EOS included); raise {option} or lower max_length"
        )
    return lengths


def rounded_up(lengths: np.ndarray, budget: int) -> np.ndarray:
    """Lengths up to 16 unchanged, up to 32 in steps of 2, up to 64 in steps of 4, and so on; never above the budget.

    Sentences within one step, at most an eighth of their length, may share a batch in one epoch but not in the next.
    """
    step = 2 ** np.maximum(np.frexp(lengths - 1)[1] - 4, 0)
    return np.minimum(-(-lengths // step) * step, budget)


def _split_points(buckets: list[Bucket], src_tokens: int, tgt_tokens: int) -> list[int]:
    """Where a new batch begins: each takes pairs in the order of the buckets until a budget is used up."""
    splits, start, size, longest_src, longest_tgt = [], 0, 0, 0, 0
    for src, tgt, count in buckets:
        while count:
            longest_src, longest_tgt = max(longest_src, src), max(longest_tgt, tgt)
            room = min(src_tokens // longest_src, tgt_tokens // longest_tgt) - size
            if room <= 0:
                splits.append(start)
                size = longest_src = longest_tgt = 0
                continue
            taken = min(room, count)
            size, start, count = size + taken, start + taken, count - taken
    return splits
