"""Sentences of similar length grouped into padded batches, in an order determined by the seed  [sec. 5.1]."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from minitransformer.batch import Batch, check_aligned, pad_batch
from minitransformer.errors import DataError
from minitransformer.text.binary import lengths_of


class BatchStream:
    """All micro-batches of a training run, numbered from 0; each is a function of (seed, number) only.

    In every epoch each pair occurs once. The pairs are shuffled, then sorted by approximate length (target, then
    source) and split so that no batch exceeds its token budgets; then the batches are shuffled.

    Sorting and splitting both use lengths rounded up by `round_up`. Sorted, these are the same in every epoch, and so
    are the splits: only which of the equally long pairs falls into which batch changes. An epoch therefore always has
    ``batches_per_epoch`` batches, and any batch is found without going through the epochs before it. Only the sentences
    of the requested batch are read.

    src, tgt: token ids of each sentence, without BOS and EOS; lists, or memory-mapped `binary.FlatSentences`
    src_tokens, tgt_tokens: maximum number of positions of a batch, including padding and EOS (BOS): B*S and B*T
    seed: determines the order of the data, 0 or more

    Raises:
        DataError: there are no pairs, the sides have different numbers of sentences, or a sentence exceeds a budget.
    """

    def __init__(
        self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], *, src_tokens: int, tgt_tokens: int, seed: int
    ):
        check_aligned("BatchStream", src, tgt)
        self.src, self.tgt, self.seed = src, tgt, seed
        self.src_lengths = _lengths("source", src, "src_tokens", src_tokens)
        self.tgt_lengths = _lengths("target", tgt, "tgt_tokens", tgt_tokens)
        self._bucket_of, buckets = _length_buckets(self.src_lengths, self.tgt_lengths, src_tokens, tgt_tokens)
        self._splits = _split_points(buckets, src_tokens, tgt_tokens)
        self._cached_epoch = lru_cache(2)(self.epoch)  # an update may end in the epoch after the one it began in

    @property
    def batches_per_epoch(self) -> int:
        return len(self._splits) + 1

    def position(self, number: int) -> tuple[int, int]:
        """(epoch, index in that epoch) of micro-batch ``number``, all counted from 0."""
        return divmod(number, self.batches_per_epoch)

    def find(self, number: int) -> tuple["BatchStream", int]:
        """The stream that has micro-batch ``number``, and its number there: this one, in all epochs."""
        return self, number

    def batch(self, number: int) -> Batch:
        """Micro-batch ``number``, counted from 0 over all epochs."""
        rows = self.rows(number)
        return pad_batch([self.src[row] for row in rows], [self.tgt[row] for row in rows], rows)

    def rows(self, number: int) -> np.ndarray:
        """Indices in the corpus of the pairs of micro-batch ``number``."""
        epoch, index = self.position(number)
        return self._cached_epoch(epoch)[index]

    def shape(self, number: int) -> tuple[int, int, int]:
        """(sentences, source positions, target positions) of micro-batch ``number``, without building the batch."""
        rows = self.rows(number)
        return len(rows), int(self.src_lengths[rows].max()), int(self.tgt_lengths[rows].max())

    def n_tgt_tokens(self, number: int) -> int:
        """Target tokens without padding of micro-batch ``number``, without building the batch."""
        return int(self.tgt_lengths[self.rows(number)].sum())

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
    src = round_up(src_lengths.astype(np.int64), src_tokens)
    tgt = round_up(tgt_lengths.astype(np.int64), tgt_tokens)
    longest, is_decreasing = int(src.max()), np.searchsorted(np.unique(tgt), tgt) % 2 == 1
    keys = tgt * (longest + 1) + np.where(is_decreasing, longest - src, src)
    _, first, numbers, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    # There are at most 16 + 8 * 27 rounded lengths below 2^31, so fewer than 2^16 buckets.
    return numbers.astype(np.uint16), list(zip(src[first].tolist(), tgt[first].tolist(), counts.tolist(), strict=True))


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


def round_up(lengths: np.ndarray, budget: int) -> np.ndarray:
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
