"""Sentences of about equal length gathered into padded batches, in an order fixed by the seed  [sec. 5.1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import DataError


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs, one per row; padding is id 0.

    src: (B, S) int32      tokens of the source, then EOS
    tgt_in: (B, T) int32   BOS, then tokens of the target: what the decoder reads
    tgt_out: (B, T) int32  tokens of the target, then EOS: what it must say
    rows: (B,) int         where the pairs stand in the corpus
    """

    src: np.ndarray
    tgt_in: np.ndarray
    tgt_out: np.ndarray
    rows: np.ndarray

    @property
    def n_src_tokens(self) -> int:
        """Source tokens without padding, EOS included."""
        return int(np.count_nonzero(self.src != PAD))

    @property
    def n_tgt_tokens(self) -> int:
        """Target tokens without padding, EOS included: the tokens over which the loss is a mean."""
        return int(np.count_nonzero(self.tgt_out != PAD))


def pad_batch(
    src_seqs: Sequence[Sequence[int]], tgt_seqs: Sequence[Sequence[int]], rows: Sequence[int] | None = None
) -> Batch:
    """The batch of these pairs, given without BOS and EOS; ``rows`` defaults to 0, 1, 2, ..."""
    if len(src_seqs) != len(tgt_seqs) or not len(src_seqs):
        raise DataError(
            f"pad_batch: source and target must have the same number of sentences, at least one, "
            f"got {len(src_seqs)} and {len(tgt_seqs)}"
        )
    return Batch(
        src=pad_rows([[*seq, EOS] for seq in src_seqs]),
        tgt_in=pad_rows([[BOS, *seq] for seq in tgt_seqs]),
        tgt_out=pad_rows([[*seq, EOS] for seq in tgt_seqs]),
        rows=np.arange(len(src_seqs)) if rows is None else np.asarray(rows),
    )


def pad_rows(seqs: Sequence[Sequence[int]]) -> np.ndarray:
    """Sequences as rows of one (B, longest) int32 array, filled up with PAD."""
    padded = np.full((len(seqs), max(map(len, seqs))), PAD, dtype=np.int32)
    for row, seq in zip(padded, seqs, strict=True):
        row[: len(seq)] = seq
    return padded


class BatchStream:
    """All micro-batches of a training run, numbered from 0; each follows from (seed, number) alone.

    In every epoch each pair occurs once. The pairs are shuffled, then sorted by approximate length (target, then
    source) and cut so that no batch exceeds its budgets; then the batches are shuffled.

    Both sorting and cutting see lengths rounded up by `rounded_up`. These, once sorted, are the same in every
    epoch, and so are the cuts: only which of the equally long pairs falls into which batch changes. So an epoch
    always has ``batches_per_epoch`` batches, and any batch is found without walking through the epochs before it.

    src, tgt: token ids of each sentence, without BOS and EOS
    src_tokens, tgt_tokens: most positions of a batch, padding and EOS (BOS) included: B*S and B*T
    seed: order of the data, 0 or more

    Raises:
        DataError: no pairs, sides of unequal number, or a sentence that is longer than a whole budget.
    """

    def __init__(
        self, src: list[list[int]], tgt: list[list[int]], *, src_tokens: int, tgt_tokens: int, seed: int
    ) -> None:
        if len(src) != len(tgt) or not src:
            raise DataError(
                f"BatchStream: source and target must have the same number of sentences, at least one, "
                f"got {len(src)} and {len(tgt)}"
            )
        self.src, self.tgt, self.seed = src, tgt, seed
        self.src_lengths = _lengths("source", src, "src_tokens", src_tokens)
        self.tgt_lengths = _lengths("target", tgt, "tgt_tokens", tgt_tokens)
        src_rounded = rounded_up(self.src_lengths, src_tokens)
        tgt_rounded = rounded_up(self.tgt_lengths, tgt_tokens)
        # Source lengths rise in one target length and fall in the next, so that a batch which holds the end of one
        # and the beginning of the other has no jump in it (about 1.5 % less padding than always rising).
        falls = np.unique(tgt_rounded, return_inverse=True)[1] % 2 == 1
        self._keys = (np.where(falls, -src_rounded, src_rounded), tgt_rounded)
        in_order = self._sorted(np.arange(len(src)))
        self._cuts = _cut(src_rounded[in_order], tgt_rounded[in_order], src_tokens, tgt_tokens)
        self._current: tuple[int, list[np.ndarray]] = (-1, [])

    @property
    def batches_per_epoch(self) -> int:
        return len(self._cuts) + 1

    def position(self, number: int) -> tuple[int, int]:
        """(epoch, place in that epoch) of micro-batch ``number``, all counted from 0."""
        return divmod(number, self.batches_per_epoch)

    def batch(self, number: int) -> Batch:
        """Micro-batch ``number``, counted from 0 over all epochs."""
        epoch, place = self.position(number)
        if self._current[0] != epoch:
            self._current = (epoch, self.epoch(epoch))
        rows = self._current[1][place]
        return pad_batch([self.src[row] for row in rows], [self.tgt[row] for row in rows], rows)

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The rows of each micro-batch of an epoch (counted from 0), in order."""
        rng = np.random.default_rng((self.seed, epoch))
        rows = self._sorted(rng.permutation(len(self.src)))
        batches = np.split(rows, self._cuts)
        return [batches[place] for place in rng.permutation(len(batches))]

    def padding_share(self, epoch: int = 0) -> float:
        """Share of positions in an epoch's batches, source and target together, that are padding."""
        padded = sum(
            len(rows) * int(lengths[rows].max())
            for rows in self.epoch(epoch)
            for lengths in (self.src_lengths, self.tgt_lengths)
        )
        return 1 - int(self.src_lengths.sum() + self.tgt_lengths.sum()) / padded

    def _sorted(self, rows: np.ndarray) -> np.ndarray:
        """``rows`` by rounded target, then source length; pairs of equal lengths keep their order."""
        by_src, by_tgt = self._keys
        return rows[np.lexsort((by_src[rows], by_tgt[rows]))]


def _lengths(side: str, seqs: list[list[int]], option: str, budget: int) -> np.ndarray:
    """Tokens of each sentence with its EOS (or BOS)."""
    lengths = np.array([len(seq) + 1 for seq in seqs])
    row = int(lengths.argmax())
    if lengths[row] > budget:
        raise DataError(
            f"BatchStream: every {side} sentence must fit into {option} = {budget}, got {lengths[row]} tokens "
            f"in row {row} (from 0, end mark included); raise {option} or lower max_length"
        )
    return lengths


def rounded_up(lengths: np.ndarray, budget: int) -> np.ndarray:
    """Lengths up to 16 as they are, up to 32 in steps of 2, up to 64 of 4, and so on; never above the budget.

    Sentences within a step, at most an eighth of their length, may share a batch in one epoch and not in the next.
    """
    step = 2 ** np.maximum(np.frexp(lengths - 1)[1] - 4, 0)
    return np.minimum(-(-lengths // step) * step, budget)


def _cut(src_lengths: np.ndarray, tgt_lengths: np.ndarray, src_tokens: int, tgt_tokens: int) -> list[int]:
    """Where a new batch begins: each takes sentences, in this order, as long as both budgets last."""
    cuts, start, longest_src, longest_tgt = [], 0, 0, 0
    for place, (src, tgt) in enumerate(zip(src_lengths.tolist(), tgt_lengths.tolist(), strict=True)):
        size = place + 1 - start
        longest_src, longest_tgt = max(longest_src, src), max(longest_tgt, tgt)
        if size * longest_src > src_tokens or size * longest_tgt > tgt_tokens:
            cuts.append(place)
            start, longest_src, longest_tgt = place, src, tgt
    return cuts
