"""The real text of benchmarks: captions, everyday sentences, and news and parliament, English and German."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from minitransformer.text import BatchStream, Tokenizer, encode_parallel, read_parallel

CORPORA = ("multi30k", "tatoeba_en_de", "wmt_small_en_de")
"""Folders of MINITRANSFORMER_DATA."""


def real_pairs(folder: Path) -> tuple[list[str], list[str]]:
    """(English, German), 239,988 aligned lines."""
    sides = [read_parallel(folder / name / "train.en", folder / name / "train.de") for name in CORPORA]
    return [line for english, _ in sides for line in english], [line for _, german in sides for line in german]


def text_size(lines: list[str]) -> int:
    """Bytes of a file of these lines."""
    return sum(len(line.encode()) + 1 for line in lines)


def repeated_to(lines: list[str], size: int) -> list[str]:
    """The lines, repeated until they make at least ``size`` bytes."""
    chosen, got, more = [], 0, cycle(lines)
    while got < size:
        chosen.append(next(more))
        got += text_size(chosen[-1:])
    return chosen


def padding_shares(folder: Path, budgets: Sequence[int]) -> dict[str, float]:
    """Share of positions that are padding in batches of real text, by the number of padded tokens in a batch."""
    src, tgt = real_pairs(folder)
    tokenizer = Tokenizer.train([*src, *tgt], 37_000)
    pairs = encode_parallel(tokenizer, src, tgt, max_length=256)
    shares = {}
    for tokens in budgets:
        stream = BatchStream(pairs.src, pairs.tgt, src_tokens=tokens, tgt_tokens=tokens, seed=1)
        shares[f"{tokens} + {tokens}"] = padding_share(stream)
    return shares


def padding_share(stream: BatchStream) -> float:
    """Fraction of the positions in an epoch's batches, source and target together, that are padding."""
    epoch = range(stream.batches_per_epoch)
    positions = sum(sentences * (src + tgt) for sentences, src, tgt in map(stream.shape, epoch))
    return 1 - float(stream.src_lengths.sum() + stream.tgt_lengths.sum()) / positions  # each pair once
