r"""The text format of a vocabulary: a versioned header, the base symbols, then one merge per line.

    #minitransformer-bpe version 1
    mode words
    base 58
    a
    ...
    merges 1000
    t h
    th e</w>

Mode ``bytes`` lists no base symbols: they are the 256 bytes. Symbols are written in UTF-8, a space as ``␣``; bytes that
are not a whole character, control characters, ``\`` and ``␣`` itself are written byte by byte as ``\x0a``.
"""

from collections.abc import Iterator

import regex

from minitransformer.errors import DataError, quote
from minitransformer.text.bpe import SymbolPair
from minitransformer.text.pretokenizers import ByteLevel, EndOfWord

HEADER = "#minitransformer-bpe version "
VERSION = "1"
SPACE = "␣"
ESCAPE = regex.compile(r"\\x([0-9a-f]{2})")
NO_ESCAPE = regex.compile(r"\\(?!x[0-9a-f]{2})")


def dump_vocabulary(mode: str, base: list[str], merges: list[SymbolPair]) -> str:
    """The text of the file; `parse_vocabulary` is its inverse."""
    lines = [HEADER + VERSION, f"mode {mode}"]
    if mode != ByteLevel.mode:
        lines.append(f"base {len(base)}")
        lines += [show_symbol(symbol, mode) for symbol in base]
    lines.append(f"merges {len(merges)}")
    lines += [f"{show_symbol(left, mode)} {show_symbol(right, mode)}" for left, right in merges]
    return "\n".join(lines) + "\n"


def parse_vocabulary(text: str, where: str) -> tuple[str, list[str], list[SymbolPair]]:
    """(mode, base symbols, merges) of a file's text.

    where: name of the file, for error messages

    Raises:
        DataError: the text is in another format or version, truncated or damaged (with the line number).
    """
    reader = _Reader(text.split("\n"), where)
    version = reader.after(HEADER)
    if version != VERSION:
        raise reader.error(f"version must be {VERSION}, got {quote(version)}")
    mode = reader.after("mode ")
    if mode not in (ByteLevel.mode, EndOfWord.mode):
        raise reader.error(f"mode must be bytes or words, got {quote(mode)}")
    known: dict[str, None] = {}
    if mode == ByteLevel.mode:
        known = dict.fromkeys(ByteLevel.base([]))
    else:
        for (symbol,) in reader.rows("base ", 1, mode):
            if symbol in known:
                raise reader.error(f"a base symbol must be listed once, got {quote(reader.line)} again")
            known[symbol] = None
    base, merges = list(known), {}
    for left, right in reader.rows("merges ", 2, mode):
        if left not in known or right not in known or (left, right) in merges:
            raise reader.error(f"a merge must join two known symbols for the first time, got {quote(reader.line)}")
        merges[left, right] = known[left + right] = None
    if reader.after() or reader.number != len(reader.lines):
        raise reader.error(f"the file must end with a newline after the last merge, got {quote(reader.line)} after it")
    return mode, base, list(merges)


def show_symbol(symbol: str, mode: str) -> str:
    """A symbol in readable form, without spaces or unprintable characters."""
    data = symbol.encode("latin-1" if mode == ByteLevel.mode else "utf-8")
    return "".join(map(_show_character, data.decode("utf-8", errors="surrogateescape")))


def read_symbol(shown: str, mode: str) -> str:
    """The inverse of `show_symbol`; ValueError if no symbol is shown in this way."""
    if not shown or NO_ESCAPE.search(shown):
        raise ValueError(f"{quote(shown)} is not an escaped symbol")
    data = shown.replace(SPACE, " ").encode("utf-8")
    # Decoded as latin-1, one character per byte, so that a single substitution replaces each escape by its byte.
    data = ESCAPE.sub(lambda found: chr(int(found[1], 16)), data.decode("latin-1")).encode("latin-1")
    return data.decode("latin-1" if mode == ByteLevel.mode else "utf-8")


def _show_character(character: str) -> str:
    if character == " ":
        return SPACE
    if character.isprintable() and character not in ("\\", SPACE):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", errors="surrogateescape"))


class _Reader:
    """Reads line by line and keeps the number of the current line for error messages."""

    def __init__(self, lines: list[str], where: str):
        self.lines, self.where, self.number, self.line = lines, where, 0, ""

    def error(self, message: str) -> DataError:
        return DataError(f"{self.where}:{self.number}: {message}")

    def after(self, key: str = "") -> str:
        """The rest of the next line, which begins with ``key``."""
        if self.number == len(self.lines):
            raise self.error("another line must follow, got the end of the file; it was truncated")
        self.line = self.lines[self.number]
        self.number += 1
        if not self.line.startswith(key):
            raise self.error(f"the line must begin with {key.strip()!r}, got {quote(self.line)}")
        return self.line.removeprefix(key)

    def rows(self, key: str, n_symbols: int, mode: str) -> Iterator[list[str]]:
        """The symbols of each line of a table; the line before it is ``key`` and the number of lines."""
        digits = self.after(key)
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            raise self.error(f"{key.strip()} must be an integer below 10^9, got {quote(digits)}")
        for _ in range(int(digits)):
            shown = self.after().split(" ")
            try:
                symbols = [read_symbol(part, mode) for part in shown]
            except ValueError as error:
                raise self.error(f"symbols must be readable, got {quote(self.line)}: {error}") from error
            if len(symbols) != n_symbols:
                raise self.error(f"the line must contain {n_symbols} symbols, got {quote(self.line)}")
            yield symbols
