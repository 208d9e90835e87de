"""Encode aligned lines as aligned token ids, leaving out empty and overlong pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minitransformer.batch import check_aligned
from minitransformer.errors import DataError
from minitransformer.text.corpus import check_lines
from minitransformer.text.tokenizer import Tokenizer

Side = Sequence[Sequence[int]]
SentencePairs = tuple[Side, Side]
"""Source and target sentences as ids without BOS and EOS; sentence i of one belongs to sentence i of the other."""


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as token ids (without BOS and EOS), the rows they had, and how many were left out and why."""

    src: list[list[int]]
    tgt: list[list[int]]
    rows: list[int]
    n_empty: int
    n_long: int


def encode_parallel(
    tokenizer: Tokenizer, src_lines: Sequence[str], tgt_lines: Sequence[str], *, max_length: int
) -> EncodedPairs:
    """Encode aligned lines; leave out pairs with an empty side or a side longer than ``max_length``.

    max_length: maximum number of tokens of a sentence including EOS, so that it fits a budget of that many tokens

    Raises:
        DataError: a side is not a list of strings, the sides have different numbers of lines, or no pair is left.
    """
    sides = [check_lines(lines, "parallel text") for lines in (src_lines, tgt_lines)]
    check_aligned("parallel text", *sides)
    kept = encode_pairs(tokenizer, zip(*sides, strict=True), max_length)
    check_some_are_left("parallel text", len(kept.src), kept.n_empty, kept.n_long, max_length)
    return kept


def check_some_are_left(op: str, n_pairs: int, n_empty: int, n_long: int, max_length: int) -> None:
    if not n_pairs:
        raise DataError(
            f"{op}: at least one pair must be left, got none of {n_empty + n_long} ({n_empty} with an empty side, "
            f"{n_long} longer than {max_length} tokens)"
        )


def encode_sides(tokenizer: Tokenizer, src_lines: Sequence[str], tgt_lines: Sequence[str]) -> SentencePairs:
    """The ids of all lines, which stay aligned."""
    return tokenizer.encode_lines(src_lines), tokenizer.target.encode_lines(tgt_lines)


def encode_pairs(tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]], max_length: int) -> EncodedPairs:
    """As `encode_parallel`, for pairs (source line, target line), but the result may be empty."""
    short, src, tgt, rows, n_empty, n_long = [], [], [], [], 0, 0
    most = (max_length - 1) * tokenizer.longest_symbol  # lines with more characters are too long: not encoded at all
    for row, (src_line, tgt_line) in enumerate(pairs):
        if max(map(_n_characters, (src_line, tgt_line))) > most and src_line.strip() and tgt_line.strip():
            n_long += 1
        else:
            short.append((row, src_line, tgt_line))
    numbers, src_lines, tgt_lines = zip(*short, strict=True) if short else ((), (), ())
    for row, src_ids, tgt_ids in zip(numbers, *encode_sides(tokenizer, src_lines, tgt_lines), strict=True):
        if not src_ids or not tgt_ids:
            n_empty += 1
        elif max(len(src_ids), len(tgt_ids)) + 1 > max_length:
            n_long += 1
        else:
            src.append(src_ids)
            tgt.append(tgt_ids)
            rows.append(row)
    return EncodedPairs(src, tgt, rows, n_empty, n_long)


def _n_characters(line: str) -> int:
    return len(line) - line.count(" ")
