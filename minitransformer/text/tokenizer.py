"""Lines to token ids and back, with a vocabulary learned by byte-pair encoding  [sec. 5.1]."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minitransformer.config import UNK
from minitransformer.errors import DataError
from minitransformer.files import write_error, write_text
from minitransformer.text.bpe import SymbolPair, apply_merges, apply_merges_with_dropout
from minitransformer.text.corpus import check_lines, read_text
from minitransformer.text.learn_merges import learn_merges
from minitransformer.text.pretokenizers import PRETOKENIZERS, PreTokenizer, utf8
from minitransformer.text.vocabulary_file import dump_vocabulary, parse_vocabulary, show_symbol
from minitransformer.text.word_counts import count_words

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Names of ids 0 to 3 in plots: PAD, BOS, EOS, UNK of `config.py`."""

MAX_IDS = 2**31 - 1
"""Batches store ids as int32."""

LONG_WORD = 256
"""Characters of a word that are merged at a time: anything longer is no word of a language, and takes n^2 steps."""

CACHE_SIZE, CACHED_LENGTH = 500_000, 64
"""Maximum number of words, or chunks between spaces, whose subwords are cached, and their maximum length in characters:
some 200 MB. A full cache is emptied."""


class Tokenizer:
    """A vocabulary of subwords: ids 0 to 3 are PAD, BOS, EOS, UNK, then base symbols, then the symbol of each merge.

    mode: ``bytes`` (any text is decoded exactly) or ``words`` (words between spaces, characters, ``</w>``)
    base: base symbols in the order of their ids
    merges: in the order in which they were learned. No two make the same symbol, because the merges inside a symbol
        never depend on its neighbors. (Except in mode ``words`` for a text that itself contains ``</w>``: two
        merges may then make symbols that look alike, and these share one id.)
    """

    other_forms: dict[str, Callable[[str, str], "Tokenizer"]] = {}
    """How to load vocabularies that are not learned here, by the beginning of their text."""

    def __init__(self, mode: str, base: list[str], merges: list[SymbolPair]):
        self.mode, self.base, self.merges = mode, base, merges
        self.pretokenizer = _pretokenizer_of(mode)
        self.symbols = list(dict.fromkeys([*base, *(left + right for left, right in merges)]))
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, len(SPECIALS))}
        self.longest_symbol = max(map(len, self.symbols), default=1)
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._ids_of = Cached(self._encode_chunk)

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, mode: str = "bytes", **options: Any) -> "Tokenizer":
        """Learn a vocabulary from lines; the other arguments are those of `learn`."""
        return cls.learn(count_words(lines, _pretokenizer_of(mode)), vocab_size, mode, **options)

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
    ) -> "Tokenizer":
        """Learn a vocabulary from how often each word occurs.

        vocab_size: number of ids, including the 4 special ones and the base symbols. Pairs that occur fewer than
            min_count times are not merged, so a short text gives a smaller vocabulary: read its ``vocab_size``.
        criterion: which pair is merged next, a key of `bpe.CRITERIA`
        progress: show a progress bar

        Raises:
            DataError: there are no words, or vocab_size is too small for the base symbols or larger than `MAX_IDS`.
        """
        if vocab_size > MAX_IDS:
            raise DataError(f"tokenizer: vocab_size must be at most {MAX_IDS}, got {vocab_size}")
        if not words:
            raise DataError("tokenizer: the text must have at least one word, got none")
        pretokenizer = _pretokenizer_of(mode)
        base = pretokenizer.base(words)
        room = vocab_size - len(SPECIALS) - len(base)
        if room < 0:
            raise DataError(
                f"tokenizer: vocab_size must be at least {vocab_size - room} "
                f"({len(SPECIALS)} special ids and {len(base)} base symbols), got {vocab_size}"
            )
        table = ((part, count) for word, count in words.items() for part in _parts(pretokenizer.symbols(word)))
        learned = learn_merges(table, criterion=criterion, min_count=min_count)
        merges = tqdm(islice(learned, room), total=room, desc="merges", unit="merge", disable=not progress)
        return cls(mode, base, list(dict.fromkeys(merges)))

    @property
    def target(self) -> "Tokenizer":
        """The tokenizer of target lines: this one, unless a model was imported with one for each side."""
        return self

    @property
    def src_vocab_size(self) -> int:
        """Number of ids of a separate source vocabulary; 0: both sides share one."""
        return 0

    @property
    def vocab_size(self) -> int:
        """Number of ids of the target's vocabulary, which is also the source's unless a model was imported with two."""
        return len(SPECIALS) + len(self.symbols)

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS; characters that are not in the vocabulary become UNK."""
        return list(chain.from_iterable(map(self._ids_of.__getitem__, self.pretokenizer.chunks(line))))

    def encode_lines(self, lines: Iterable[str]) -> list[list[int]]:
        """`encode` of each line."""
        collects = gc.isenabled()
        gc.disable()  # it would search millions of new lists for cycles, again and again: a third of the time
        try:
            return list(map(self.encode, check_lines(lines, "tokenizer")))
        finally:
            if collects:
                gc.enable()

    def encode_with_dropout(self, line: str, p_drop: float, draw: Callable[[], float]) -> list[int]:
        """`encode`, but with merges left out at random, see `bpe.apply_merges_with_dropout`; for training only."""
        return list(self._encode_chunk(line, partial(apply_merges_with_dropout, p_drop=p_drop, draw=draw)))

    def count_tokens(self, words: Mapping[str, int]) -> int:
        """Number of tokens of a text with these word counts."""
        return sum(len(self._ids_of[word]) * count for word, count in words.items())

    def decode(self, ids: Iterable[int]) -> str:
        """The line of these ids; special ids are skipped.

        Raises:
            DataError: an id is outside the vocabulary.
        """
        return self.pretokenizer.join(symbol for symbol in map(self._symbol, ids) if symbol is not None)

    def subwords(self, ids: Iterable[int]) -> list[str]:
        """The readable subword of each id, as in the vocabulary file: a space is shown as ``␣``."""
        pairs = ((token, self._symbol(token)) for token in ids)
        return [SPECIALS[token] if symbol is None else show_symbol(symbol, self.mode) for token, symbol in pairs]

    def dumps(self) -> str:
        """The vocabulary as text: what `save` writes and a checkpoint contains."""
        return dump_vocabulary(self.mode, self.base, self.merges)

    @classmethod
    def loads(cls, text: str, where: str = "tokenizer") -> "Tokenizer":
        """The vocabulary that `dumps` wrote; DataError, with ``where`` and the line number, if it is damaged.

        A vocabulary of SentencePiece pieces, from an imported model, becomes a `PieceTokenizer`.
        """
        for mark, loads in cls.other_forms.items():
            if text.startswith(mark):
                return loads(text, where)
        return cls(*parse_vocabulary(text, where or "tokenizer"))

    def save(self, path: str | Path) -> None:
        """Write the vocabulary atomically: an interrupted write leaves no partial file."""
        try:
            write_text(path, self.dumps())
        except OSError as error:
            raise DataError(f"{path}: {write_error(error)}") from error

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a vocabulary; DataError if the file does not exist or is damaged."""
        return cls.loads(read_text(path), str(path))

    def _encode_chunk(self, chunk: str, merge: Callable = apply_merges) -> tuple[int, ...]:
        utf8(chunk)  # raises for text that no file can contain
        ids = []
        for word in self.pretokenizer.split(chunk):
            for part in _parts(self.pretokenizer.symbols(word)):
                ids += [self._ids.get(symbol, UNK) for symbol in merge(part, self._ranks)]
        return tuple(ids)

    def _symbol(self, token: int) -> str | None:
        """The symbol of an id, None for a special one; DataError if it is outside the vocabulary."""
        if not 0 <= token < self.vocab_size:
            raise DataError(f"decode: token ids must be from 0 to {self.vocab_size - 1}, got {token}")
        return self.symbols[token - len(SPECIALS)] if token >= len(SPECIALS) else None


class Cached(dict):
    """Results of ``function`` by argument: tuples of strings or integers, which the garbage collector does not track.

    A full cache is emptied. An LRU cache was slower: in a text with more distinct words than it has room for, each word
    is evicted before it occurs again (benchmarks/notes.md).
    """

    def __init__(self, function: Callable[[str], tuple]):
        super().__init__()
        self.function = function

    def __missing__(self, argument: str) -> tuple:
        if len(self) >= CACHE_SIZE:
            self.clear()
        result = self.function(argument)
        if len(argument) <= CACHED_LENGTH:
            self[argument] = result
        return result


def _parts(symbols: list[str]) -> Iterator[list[str]]:
    """The symbols of a word, LONG_WORD at a time: no merge, learned or applied, joins two parts."""
    return (symbols[at : at + LONG_WORD] for at in range(0, len(symbols), LONG_WORD))


def _pretokenizer_of(mode: str) -> PreTokenizer:
    if mode not in PRETOKENIZERS:
        raise DataError(f"tokenizer: mode must be {' or '.join(PRETOKENIZERS)}, got {mode!r}")
    return PRETOKENIZERS[mode]
