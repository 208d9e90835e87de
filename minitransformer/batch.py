"""A batch: sentence pairs as padded rows of token ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import DataError, quote


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs, one per row; padding is id 0.

    src: (B, S) int32      source tokens, then EOS
    tgt_in: (B, T) int32   BOS, then target tokens: the input of the decoder
    tgt_out: (B, T) int32  target tokens, then EOS: what it must predict
    rows: (B,) int         indices of the pairs in the corpus
    """

    src: np.ndarray
    tgt_in: np.ndarray
    tgt_out: np.ndarray
    rows: np.ndarray

    @property
    def n_src_tokens(self) -> int:
        """Number of source tokens without padding, including EOS."""
        return int(np.count_nonzero(self.src != PAD))

    @property
    def n_tgt_tokens(self) -> int:
        """Number of target tokens without padding, including EOS: the tokens over which the loss is averaged."""
        return int(np.count_nonzero(self.tgt_out != PAD))


def pad_batch(
    src_seqs: Sequence[Sequence[int]], tgt_seqs: Sequence[Sequence[int]], rows: Sequence[int] | None = None
) -> Batch:
    """A batch of pairs given without BOS and EOS; ``rows`` defaults to 0, 1, 2, ..."""
    check_aligned("pad_batch", src_seqs, tgt_seqs)
    return Batch(
        src=pad_rows(src_seqs, last=EOS),
        tgt_in=pad_rows(tgt_seqs, first=BOS),
        tgt_out=pad_rows(tgt_seqs, last=EOS),
        rows=np.arange(len(src_seqs)) if rows is None else np.asarray(rows),
    )


def check_aligned(op: str, src: Sequence, tgt: Sequence) -> None:
    if len(src) != len(tgt) or not len(src):
        raise DataError(
            f"{op}: source and target must have the same number of sentences, at least one, got {len(src)} and "
            f"{len(tgt)}"
        )


def pad_rows(seqs: Sequence[Sequence[int]], *, first: int | None = None, last: int | None = None) -> np.ndarray:
    """Sequences as rows of a (B, longest) int32 array padded with PAD, each between ``first`` and ``last``."""
    begin, lengths = int(first is not None), np.array([len(seq) for seq in seqs])
    columns = np.arange(lengths.max() + begin + int(last is not None)) - begin
    padded = np.full((len(seqs), len(columns)), PAD, dtype=np.int32)
    ids = np.concatenate(seqs) if isinstance(seqs[0], np.ndarray) else np.array(list(chain.from_iterable(seqs)))
    if ids.size and (ids.dtype.kind not in "iu" or ids.max() > np.iinfo(np.int32).max):
        wrong = (each for each in ids.tolist() if type(each) is not int or each > np.iinfo(np.int32).max)
        raise DataError(f"pad_rows: ids must be integers below 2^31, got {quote(next(wrong, ids.dtype))}")
    padded[(columns >= 0) & (columns < lengths[:, None])] = ids
    if first is not None:
        padded[:, 0] = first
    if last is not None:
        padded[np.arange(len(seqs)), lengths + begin] = last
    return padded
