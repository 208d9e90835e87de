"""Lines to token ids and back, with a vocabulary learned by byte-pair encoding  [sec. 5.1]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minitransformer.config import UNK
from minitransformer.errors import DataError
from minitransformer.files import write_atomically
from minitransformer.text.bpe import Pair, apply_merges, learn_merges
from minitransformer.text.bpe_arrays import BpeArrays
from minitransformer.text.corpus import read_text
from minitransformer.text.pretokenizers import END, PRETOKENIZERS, ByteLevel, Spelling, utf8
from minitransformer.text.vocabulary_file import dump_vocabulary, parse_vocabulary, read_symbol, show_symbol
from minitransformer.text.word_counts import count_words

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""What ids 0 to 3 are called in plots: PAD, BOS, EOS, UNK of `config.py`."""

MOST_IDS = 2**31 - 1
"""Batches hold ids as int32."""

REMEMBERED = 500_000
"""Words, and chunks between spaces, whose pieces are remembered, up to 200 MB each; beyond that all are forgotten."""

CONTINUED = "@@"
"""Ends a written-out piece of mode ``words`` that does not end its word, as in subword-nmt."""


class Tokenizer:
    """A vocabulary: ids 0 to 3 are PAD, BOS, EOS, UNK, then base symbols, then what each merge made, in order.

    mode: ``bytes`` (any text comes back exactly) or ``words`` (words between spaces, characters, ``</w>``)
    base: base symbols in the order of their ids
    merges: in the order they were learned. Each makes a symbol of its own, because what happens inside a symbol
        on its way never depended on its neighbours. (Only a text that itself contains ``</w>`` can, in mode
        ``words``, bring two that look alike; these share one id.)
    """

    def __init__(self, mode: str, base: list[str], merges: list[Pair]):
        self.mode, self.base, self.merges = mode, base, merges
        self.spelling = _spelling_of(mode)
        self.symbols = list(dict.fromkeys([*base, *(left + right for left, right in merges)]))
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, len(SPECIALS))}
        self.longest_symbol = max(map(len, self.symbols), default=1)
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._symbols_of = _Remembered(self._merge_word)
        self._ids_of = _Remembered(self._number_chunk)

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, mode: str = "bytes", **options: Any) -> Tokenizer:
        """Learn a vocabulary from lines; the rest is as in `learn`."""
        return cls.learn(count_words(lines, _spelling_of(mode)), vocab_size, mode, **options)

    @classmethod
    def learn(
        cls,
        words: Mapping[str, int],
        vocab_size: int,
        mode: str = "bytes",
        *,
        criterion: str = "frequency",
        min_count: int = 2,
        progress: bool = False,
    ) -> Tokenizer:
        """Learn a vocabulary from how often each word occurs.

        vocab_size: ids in all, with the 4 special ones and the base symbols. Pairs that occur less than min_count times
            are not merged, so a short text gives a smaller vocabulary: read ``vocab_size`` of the result.
        criterion: which pair is merged next, a key of `bpe.CRITERIA`
        progress: show a bar

        Raises:
            DataError: there are no words, or vocab_size has no room for the base symbols or is above `MOST_IDS`.
        """
        if vocab_size > MOST_IDS:
            raise DataError(f"tokenizer: vocab_size must be at most {MOST_IDS}, got {vocab_size}")
        if not words:
            raise DataError("tokenizer: the text must have at least one word, got none")
        spelling = _spelling_of(mode)
        base = spelling.base(words)
        room = vocab_size - len(SPECIALS) - len(base)
        if room < 0:
            raise DataError(
                f"tokenizer: vocab_size must be at least {vocab_size - room} "
                f"({len(SPECIALS)} special ids and {len(base)} base symbols), got {vocab_size}"
            )
        table = ((spelling.spell(word), count) for word, count in words.items())
        found = learn_merges(table, criterion=criterion, min_count=min_count, table=BpeArrays)
        merges = tqdm(islice(found, room), total=room, desc="merges", unit="merge", disable=not progress)
        return cls(mode, base, list(dict.fromkeys(merges)))

    @property
    def vocab_size(self) -> int:
        return len(SPECIALS) + len(self.symbols)

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS; characters that are not in the vocabulary become UNK."""
        return list(chain.from_iterable(map(self._ids_of.__getitem__, self.spelling.chunks(line))))

    def encode_lines(self, lines: Iterable[str]) -> list[list[int]]:
        return [self.encode(line) for line in lines]

    def decode(self, ids: Iterable[int]) -> str:
        """The line these ids spell; special ids are left out.

        Raises:
            DataError: an id outside the vocabulary.
        """
        return self.spelling.join(self._symbol(number) for number in ids if self._is_text(number))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A readable label for each id, as in the vocabulary's file: spaces show as ``␣``."""
        return [
            show_symbol(self._symbol(number), self.mode) if self._is_text(number) else SPECIALS[number]
            for number in ids
        ]

    def segment(self, line: str) -> str:
        """The line written out as pieces with spaces between, for other programs; `unsegment` undoes it.

        Mode ``words`` writes as subword-nmt does: ``un@@ known``. Characters outside the vocabulary are kept.
        """
        words = map(self._symbols_of.__getitem__, self.spelling.split(line))
        if self.mode == ByteLevel.mode:
            return " ".join(show_symbol(symbol, self.mode) for symbols in words for symbol in symbols)
        return " ".join((CONTINUED + " ").join(symbols).removesuffix(END) for symbols in words)

    def unsegment(self, text: str) -> str:
        """The line that `segment` wrote out as ``text``."""
        if self.mode != ByteLevel.mode:
            return text.replace(CONTINUED + " ", "")
        try:
            return self.spelling.join(read_symbol(piece, self.mode) for piece in text.split(" ") if piece)
        except ValueError as error:
            raise DataError(f"bpe decode: pieces must be as `bpe encode` writes them, got {text!r}: {error}") from error

    def dumps(self) -> str:
        """The vocabulary as text: what `save` writes and a checkpoint carries."""
        return dump_vocabulary(self.mode, self.base, self.merges)

    @classmethod
    def loads(cls, text: str, where: str = "tokenizer") -> Tokenizer:
        """The vocabulary that `dumps` wrote; DataError, with ``where`` and the line's number, if it is damaged."""
        return cls(*parse_vocabulary(text, where or "tokenizer"))

    def save(self, path: str | Path) -> None:
        """Write the vocabulary; the file appears whole or not at all."""
        try:
            write_atomically(path, lambda file: file.write(self.dumps().encode()))
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a vocabulary; DataError if there is no such file or it is damaged."""
        return cls.loads(read_text(path), str(path))

    def _merge_word(self, word: str) -> tuple[str, ...]:
        utf8(word)  # refuses what no file can hold
        return tuple(apply_merges(self.spelling.spell(word), self._ranks))

    def _number_chunk(self, chunk: str) -> tuple[int, ...]:
        words = self.spelling.split(chunk)
        return tuple(self._ids.get(symbol, UNK) for word in words for symbol in self._symbols_of[word])

    def _is_text(self, number: int) -> bool:
        """Whether an id is a symbol's, not a special one; DataError if it is neither."""
        if not 0 <= number < self.vocab_size:
            raise DataError(f"decode: token ids must be from 0 to {self.vocab_size - 1}, got {number}")
        return number >= len(SPECIALS)

    def _symbol(self, number: int) -> str:
        return self.symbols[number - len(SPECIALS)]


class _Remembered(dict):
    """Results of ``function`` by argument. They are tuples, which Python's garbage collector passes over."""

    def __init__(self, function: Callable[[str], tuple]):
        super().__init__()
        self.function = function

    def __missing__(self, argument: str) -> tuple:
        if len(self) >= REMEMBERED:
            self.clear()
        self[argument] = result = self.function(argument)
        return result


def _spelling_of(mode: str) -> Spelling:
    if mode not in PRETOKENIZERS:
        raise DataError(f"tokenizer: mode must be {' or '.join(PRETOKENIZERS)}, got {mode!r}")
    return PRETOKENIZERS[mode]
