"""Merge files of subword-nmt, version 0.2: what other tools of the field read and write.

    #version: 0.2
    t h
    th e</w>

Such a file holds merges alone. The base symbols of a tokenizer made from it are the characters of the merges, and of a
text if one is given.
"""

from __future__ import annotations

from collections.abc import Iterable

from minitransformer.errors import DataError
from minitransformer.text.bpe import Pair
from minitransformer.text.pretokenizers import END, EndOfWord
from minitransformer.text.tokenizer import Tokenizer

HEADER = "#version: "
VERSION = "0.2"


def tokenizer_from_codes(text: str, where: str, lines: Iterable[str] = ()) -> Tokenizer:
    """The tokenizer, mode ``words``, of a merge file's text.

    where: the file's name, for messages
    lines: text whose characters are to be known too

    Raises:
        DataError: another version, or a line that is no merge of known symbols (with its number).
    """
    merges = _merges(text, where)
    characters = set("".join(symbol.removesuffix(END) for pair in merges for symbol in pair))
    characters.update(*lines)
    base = EndOfWord.base(characters - {" "})
    known = set(base)
    for number, (left, right) in enumerate(merges, start=2):
        if left not in known or right not in known:
            raise DataError(f"{where}:{number}: a merge must join two known symbols, got {left!r} and {right!r}")
        known.add(left + right)
    return Tokenizer(EndOfWord.mode, base, merges)


def codes_of(tokenizer: Tokenizer) -> str:
    """The merge file of a tokenizer of mode ``words``.

    Raises:
        DataError: the mode is another, or a symbol holds what separates symbols or lines in such a file.
    """
    if tokenizer.mode != EndOfWord.mode:
        raise DataError(f"subword-nmt: the tokenizer must have mode {EndOfWord.mode}, got {tokenizer.mode}")
    lines = [HEADER + VERSION]
    for left, right in tokenizer.merges:
        if set(left + right) & set("\n\r"):
            raise DataError(f"subword-nmt: symbols must not hold the end of a line, got {left!r} and {right!r}")
        lines.append(f"{left} {right}")
    return "\n".join(lines) + "\n"


def _merges(text: str, where: str) -> list[Pair]:
    header, *lines = text.removesuffix("\n").split("\n")
    if header.rstrip("\r") != HEADER + VERSION:
        raise DataError(f"{where}:1: the header must be {HEADER + VERSION!r}, got {header[:60]!r}")
    merges = []
    for number, line in enumerate(lines, start=2):
        symbols = line.rstrip("\r").split(" ")
        if len(symbols) != 2 or not all(symbols):
            raise DataError(f"{where}:{number}: a line must hold two symbols, got {line[:60]!r}")
        merges.append((symbols[0], symbols[1]))
    if len(set(merges)) != len(merges):
        again = next(pair for pair in merges if merges.count(pair) > 1)
        raise DataError(f"{where}: a merge must stand there once, got {' '.join(again)!r} again")
    return merges
