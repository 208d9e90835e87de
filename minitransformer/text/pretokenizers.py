"""Two pre-tokenizers, which split a line into words and a word into base symbols: bytes, or characters and an end mark.

A pre-tokenizer has ``split`` (line -> words), ``symbols`` (word -> base symbols), ``base`` (words -> every base symbol)
and ``join`` (symbols -> line). ``chunks`` splits a line, faster than ``split``, into parts of whole words that recur
often enough to be worth caching. Symbols are strings in both, so the merges of `bpe.py` serve either.
"""

from collections.abc import Iterable

import regex

from minitransformer.errors import DataError, quote

END = "</w>"
"""The mark on the last character of a word in mode ``words``  [Sennrich et al. 2016]."""

# Letters, digits or other characters, with at most one space before them; then white space, of which the last character
# is left to the next word. Every character belongs to one of these classes, so nothing is lost. Runs are limited to 64
# characters, so that text in scripts written without spaces takes time proportional to its length.
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
    """Words matched by a pattern, and their UTF-8 bytes: any text can be encoded, and is decoded exactly.

    A symbol is a string with one character (U+0000 to U+00FF) per byte.
    """

    mode = "bytes"

    @staticmethod
    def split(line: str) -> list[str]:
        return WORD.findall(line)

    @classmethod
    def chunks(cls, line: str) -> list[str]:
        """Parts of the line whose words (``split``), taken together, are the words of the line.

        If all white space is single spaces, no word extends across one: the line is split before each space.
        """
        if line.split() == line.split(" "):
            return line.replace(" ", "\n ").split("\n")
        return cls.split(line)

    @staticmethod
    def symbols(word: str) -> list[str]:
        return list(utf8(word).decode("latin-1"))

    @staticmethod
    def base(words: Iterable[str]) -> list[str]:
        """All 256 bytes, whatever the words are."""
        return [chr(byte) for byte in range(256)]

    @staticmethod
    def join(symbols: Iterable[str]) -> str:
        """The line; bytes that are not valid UTF-8, which a model may generate, become U+FFFD."""
        return "".join(symbols).encode("latin-1").decode("utf-8", errors="replace")


class EndOfWord:
    """Words between spaces, and their characters, the last of which carries the mark ``</w>``.

    Only the space U+0020 separates words, as in subword-nmt; the number of spaces between two words is not kept.
    """

    mode = "words"

    @staticmethod
    def split(line: str) -> list[str]:
        return [word for word in line.split(" ") if word]

    chunks = split

    @staticmethod
    def symbols(word: str) -> list[str]:
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


PreTokenizer = type[ByteLevel] | type[EndOfWord]
PRETOKENIZERS: dict[str, PreTokenizer] = {each.mode: each for each in (ByteLevel, EndOfWord)}


def utf8(text: str) -> bytes:
    """The bytes of ``text``; DataError if it contains a lone surrogate, which UTF-8 cannot encode."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"tokenizer: text must be valid Unicode, got {text[error.start]!r} in {quote(text)}") from error
