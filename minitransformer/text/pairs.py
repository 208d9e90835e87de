"""Aligned lines to aligned token ids, leaving out pairs that cannot be learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from minitransformer.errors import DataError
from minitransformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as token ids (without BOS and EOS), and how many lines were left out, and why."""

    src: list[list[int]]
    tgt: list[list[int]]
    n_empty: int
    n_long: int


def encode_parallel(
    tokenizer: Tokenizer,
    src_lines: Sequence[str],
    tgt_lines: Sequence[str],
    *,
    max_length: int,
    progress: bool = False,
) -> EncodedPairs:
    """Encode aligned lines; leave out pairs with an empty side, or a side longer than ``max_length``.

    max_length: tokens of a sentence at most, its EOS included, so that it fits a budget of as many tokens
    progress: show a bar

    Raises:
        DataError: no pair is left.
    """
    kept = encode_pairs(tokenizer, src_lines, tgt_lines, max_length=max_length, progress=progress)
    if not kept.src:
        raise DataError(
            f"parallel text: at least one pair must be left after cleaning, got none of {len(src_lines)} "
            f"({kept.n_empty} with an empty side, {kept.n_long} longer than {max_length} tokens)"
        )
    return kept


def encode_pairs(
    tokenizer: Tokenizer,
    src_lines: Sequence[str],
    tgt_lines: Sequence[str],
    *,
    max_length: int,
    progress: bool = False,
) -> EncodedPairs:
    """`encode_parallel` of lines of which no pair need be left."""
    src, tgt, n_empty, n_long = [], [], 0, 0
    pairs = zip(src_lines, tgt_lines, strict=True)
    most = (max_length - 1) * tokenizer.longest_symbol  # no need to encode a line of megabytes that is too long
    for src_line, tgt_line in tqdm(pairs, total=len(src_lines), desc="encode", unit="pair", disable=not progress):
        if max(map(_signs, (src_line, tgt_line))) > most and src_line.strip() and tgt_line.strip():
            n_long += 1
            continue
        src_ids, tgt_ids = tokenizer.encode(src_line), tokenizer.encode(tgt_line)
        if not src_ids or not tgt_ids:
            n_empty += 1
        elif max(len(src_ids), len(tgt_ids)) + 1 > max_length:
            n_long += 1
        else:
            src.append(src_ids)
            tgt.append(tgt_ids)
    return EncodedPairs(src, tgt, n_empty, n_long)


def _signs(line: str) -> int:
    return len(line) - line.count(" ")
