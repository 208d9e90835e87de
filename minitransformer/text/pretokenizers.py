"""The two ways to see a line as words, and a word as base symbols: bytes, or characters with an end mark.

A spelling has ``split`` (line -> words), ``spell`` (word -> base symbols) and ``join`` (symbols -> line). ``chunks``
cuts a line, faster than ``split``, into parts that hold whole words and occur again and again: worth remembering.
Symbols are strings in both, so the merges of `bpe.py` need not know which spelling they serve.
"""

from __future__ import annotations

from collections.abc import Iterable

import regex

from minitransformer.errors import DataError

END = "</w>"
"""The mark on the last character of a word in mode ``words``  [Sennrich et al. 2016]."""

# Letters, digits or other signs, each with at most one space before; then spaces, the last left to the next word.
# Every character belongs to one of these kinds, so nothing is lost. Runs are cut at 64 characters: scripts that
# write without spaces then take time in proportion to their length.
WORD = regex.compile(
    "|".join(
        [
            r" ?[\p{L}\p{M}]{1,64}",
            r" ?\p{N}{1,64}",
            r" ?[^\s\p{L}\p{M}\p{N}]{1,64}",
            r"\s{1,64}(?!\S)",
            r"\s",
        ]
    )
)


class ByteLevel:
    """Words of a pattern, spelled in UTF-8 bytes: any text can be written, and comes back exactly.

    A symbol is a string with one character (U+0000 to U+00FF) per byte.
    """

    mode = "bytes"

    @staticmethod
    def split(line: str) -> list[str]:
        return WORD.findall(line)

    @classmethod
    def chunks(cls, line: str) -> list[str]:
        """``split`` of each chunk, one after the other, is ``split`` of the line.

        Where all white space is single spaces, no word reaches over the beginning of `` word``: the line is cut there.
        """
        if line.split() == line.split(" "):
            return line.replace(" ", "\n ").split("\n")
        return cls.split(line)

    @staticmethod
    def spell(word: str) -> list[str]:
        return list(utf8(word).decode("latin-1"))

    @staticmethod
    def base(words: Iterable[str]) -> list[str]:
        """All 256 bytes, whatever the words are."""
        return [chr(byte) for byte in range(256)]

    @staticmethod
    def join(symbols: Iterable[str]) -> str:
        """The line; bytes that are no UTF-8 (a model may write such) become U+FFFD."""
        return "".join(symbols).encode("latin-1").decode("utf-8", errors="replace")


class EndOfWord:
    """Words between spaces, spelled in characters, the last of which carries the mark ``</w>``.

    Only the space U+0020 separates words, as in subword-nmt; how many stood between two words is not kept.
    """

    mode = "words"

    @staticmethod
    def split(line: str) -> list[str]:
        return [word for word in line.split(" ") if word]

    chunks = split

    @staticmethod
    def spell(word: str) -> list[str]:
        return [*word[:-1], word[-1] + END]

    @staticmethod
    def base(words: Iterable[str]) -> list[str]:
        """Every character of the words, inside a word and at its end, sorted."""
        characters = sorted(set().union(*words))
        return characters + [character + END for character in characters]

    @staticmethod
    def join(symbols: Iterable[str]) -> str:
        parts = (symbol.removesuffix(END) + " " if symbol.endswith(END) else symbol for symbol in symbols)
        return "".join(parts).removesuffix(" ")


Spelling = type[ByteLevel] | type[EndOfWord]
PRETOKENIZERS: dict[str, Spelling] = {spelling.mode: spelling for spelling in (ByteLevel, EndOfWord)}


def utf8(text: str) -> bytes:
    """The bytes of ``text``; DataError if it holds half a surrogate pair, which no UTF-8 file can."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"tokenizer: text must be valid Unicode, got {text[error.start]!r} in {text!r}") from error
