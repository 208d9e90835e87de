"""Merge files of subword-nmt, version 0.2, which other tools read and write.

    #version: 0.2
    t h
    th e</w>

Such a file contains only merges. The base symbols of a tokenizer made from it are the characters of the merges, and
those of a text if one is given.
"""

from collections.abc import Iterable

from minitransformer.errors import DataError, quoted
from minitransformer.text.bpe import Pair
from minitransformer.text.pretokenizers import END, EndOfWord
from minitransformer.text.tokenizer import Tokenizer

HEADER = "#version: "
VERSION = "0.2"


def tokenizer_from_codes(text: str, where: str, lines: Iterable[str] = ()) -> Tokenizer:
    """The tokenizer (mode ``words``) of a merge file's text.

    where: name of the file, for error messages
    lines: text whose characters become base symbols too

    Raises:
        DataError: the version is another, or a line is not a merge of known symbols (with the line number).
    """
    merges = _merges(text, where)
    characters = set("".join(symbol.removesuffix(END) for pair in merges for symbol in pair))
    for line in lines:
        characters.update(line)
    base = EndOfWord.base(characters - {" "})
    known = set(base)
    for number, (left, right) in enumerate(merges, start=2):
        if left not in known or right not in known:
            raise DataError(
                f"{where}:{number}: a merge must join two known symbols, got {quoted(left)} and {quoted(right)}"
            )
        known.add(left + right)
    return Tokenizer(EndOfWord.mode, base, merges)


def codes_of(tokenizer: Tokenizer) -> str:
    """The merge file of a tokenizer of mode ``words``.

    Raises:
        DataError: the mode is another, or a symbol contains a line end.
    """
    if tokenizer.mode != EndOfWord.mode:
        raise DataError(f"subword-nmt: the tokenizer must have mode {EndOfWord.mode}, got {tokenizer.mode}")
    lines = [HEADER + VERSION]
    for left, right in tokenizer.merges:
        if set(left + right) & set("\n\r"):
            raise DataError(f"subword-nmt: symbols must not contain a line end, got {quoted(left)} and {quoted(right)}")
        lines.append(f"{left} {right}")
    return "\n".join(lines) + "\n"


def _merges(text: str, where: str) -> list[Pair]:
    header, *lines = text.removesuffix("\n").split("\n")
    if header.rstrip("\r") != HEADER + VERSION:
        raise DataError(f"{where}:1: the header must be {HEADER + VERSION!r}, got {quoted(header, 60)}")
    merges: dict[Pair, None] = {}
    for number, line in enumerate(lines, start=2):
        left, _, right = line.rstrip("\r").partition(" ")
        if not left or not right or " " in right:
            raise DataError(f"{where}:{number}: a line must contain two symbols, got {quoted(line, 60)}")
        if (left, right) in merges:
            raise DataError(f"{where}:{number}: each merge must be listed once, got {quoted(line, 60)} again")
        merges[left, right] = None
    return list(merges)
