"""The training data of a run: sentence pairs as ids (or one side alone), from files, lines or a program."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from minitransformer.checkpoints import load_checkpoint
from minitransformer.config import PAD, Config, DataConfig
from minitransformer.errors import ConfigError, DataError, printable
from minitransformer.models import model_class
from minitransformer.text import BatchStream, PieceTokenizer, Tokenizer, encode_parallel, read_parallel
from minitransformer.text.binary import FlatSentences, fingerprint_of, lengths_of, open_pairs, sha256_of
from minitransformer.text.bpe_dropout import RedrawnStream, draw_pairs
from minitransformer.text.pairs import SentencePairs, Side, encode_sides

LinePairs = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Corpus:
    """Training pairs, and validation pairs if there are any.

    ``Corpus(train, valid)`` takes ids, for data that a program generates.

    Attributes:
        tokenizer: None where a program generated the ids.
        valid_lines: the validation text itself, which BLEU needs.
        train_lines: the training text itself, of ``train`` pair by pair, which BPE dropout segments in each epoch.
        n_empty, n_long: training pairs left out because a side was empty, or longer than ``max_length``.
        max_length: tokens including EOS.
        known_fingerprint: that of training pairs on disk, so that they need not be read to compute it.
    """

    train: SentencePairs
    valid: SentencePairs | None = None
    tokenizer: Tokenizer | None = None
    valid_lines: LinePairs | None = None
    train_lines: LinePairs | None = None
    n_empty: int = 0
    n_long: int = 0
    max_length: int = 256
    known_fingerprint: str = ""

    def __post_init__(self):
        for name, pairs in (("train", self.train), ("valid", self.valid)):
            if pairs is None:
                continue
            if self.tokenizer is None:
                _check_ids(name, pairs)
            sizes = [len(side) for side in pairs]
            if len(sizes) != 2 or not 0 < sizes[0] == sizes[1]:
                raise DataError(
                    f"corpus: {name} must have as many source as target sentences and at least one, "
                    f"got {' and '.join(map(str, sizes[:3]))}"
                )

    def left_out(self) -> str:
        """One line about the pairs that were left out; "" if none was."""
        if not self.n_empty + self.n_long:
            return ""
        return (
            f"train: left out {self.n_empty} pairs with an empty side and {self.n_long} longer than {self.max_length} "
            "tokens, end mark included"
        )

    @classmethod
    def one_sided(cls, train: Side, valid: Side | None = None, tokenizer: Tokenizer | None = None) -> "Corpus":
        """Sequences of ids for a model that has no source, such as a language model; each source side is empty."""
        return cls(([[]] * len(train), train), None if valid is None else ([[]] * len(valid), valid), tokenizer)

    @classmethod
    def from_lines(
        cls, tokenizer: Tokenizer, train: LinePairs, valid: LinePairs | None = None, *, max_length: int = 256
    ) -> "Corpus":
        """Encode (source lines, target lines), both sides with one tokenizer.

        max_length: training pairs with a longer side are left out and counted, tokens including EOS; validation
            stays whole
        """
        kept = encode_parallel(tokenizer, *train, max_length=max_length)
        valid_ids = valid and encode_sides(tokenizer, *valid)
        text = [train[0][row] for row in kept.rows], [train[1][row] for row in kept.rows]
        return cls((kept.src, kept.tgt), valid_ids, tokenizer, valid, text, kept.n_empty, kept.n_long, max_length)

    @classmethod
    def from_files(cls, config: DataConfig) -> "Corpus":
        """Read and encode the files of the [data] section.

        Raises:
            ConfigError: a path is missing in the config, or there is text as well as ids.
            DataError: a file is missing, empty, misaligned or not UTF-8, or the ids are another tokenizer's.
        """
        if config.train_ids and (config.train_src or config.train_tgt):
            raise ConfigError(
                "data.train_ids must stand alone, got data.train_src or data.train_tgt too; leave one out"
            )
        needed = ["train_ids", "tokenizer"] if config.train_ids else ["train_src", "train_tgt", "tokenizer"]
        if config.valid_src or config.valid_tgt:
            needed += ["valid_src", "valid_tgt"]
        for name in needed:
            if not getattr(config, name):
                remedy = "make one with `minitransformer bpe train`" if name == "tokenizer" else "name a text file"
                raise ConfigError(f"data.{name} must be a path, got nothing; {remedy}")
        tokenizer = load_tokenizer(config.tokenizer)
        valid = read_parallel(config.valid_src, config.valid_tgt) if config.valid_src else None
        if config.train_ids:
            return cls.from_binary(tokenizer, config.train_ids, valid, max_length=config.max_length)
        train = read_parallel(config.train_src, config.train_tgt)
        corpus = cls.from_lines(tokenizer, train, valid, max_length=config.max_length)
        return corpus if config.bpe_dropout else replace(corpus, train_lines=None)  # the text takes memory

    @classmethod
    def from_binary(
        cls, tokenizer: Tokenizer, folder: str | Path, valid: LinePairs | None = None, *, max_length: int = 256
    ) -> "Corpus":
        """Open a folder of ids that `binarize` wrote; the rest as `from_lines`.

        Raises:
            DataError: the folder is damaged, another tokenizer's, or holds sentences longer than max_length.
        """
        header, src, tgt = open_pairs(folder)
        made_with = header.tokenizer_sha256, header.vocab_size
        if made_with != (sha256_of(tokenizer.dumps()), max(tokenizer.vocab_size, tokenizer.src_vocab_size)):
            raise DataError(
                f"{folder}: must be made with the tokenizer of data.tokenizer, got another one of {header.vocab_size} "
                "tokens; binarize the text again, or name the tokenizer it was made with"
            )
        if header.max_length > max_length:
            raise DataError(
                f"{folder}: must be made with at most data.max_length = {max_length}, got {header.max_length}; "
                "raise it or binarize the text again with --max-length"
            )
        valid_ids = valid and encode_sides(tokenizer, *valid)
        left_out = header.n_empty, header.n_long, header.max_length
        return cls((src, tgt), valid_ids, tokenizer, valid, None, *left_out, header.fingerprint)

    def stream(self, config: Config) -> BatchStream | RedrawnStream:
        """The micro-batches of a run; to draw the 29,000 pairs of Multi30k again takes 7 s of one core per epoch."""
        data, model, seed = config.data, config.model, config.training.seed
        budgets = {"src_tokens": data.src_tokens, "tgt_tokens": data.tgt_tokens, "seed": seed}
        if not data.bpe_dropout:
            return BatchStream(*self.train, **budgets)
        positions = model.max_positions if model.positions == "learned" else data.max_length
        longest = min(data.max_length, data.src_tokens, data.tgt_tokens, positions)
        facts = {"tokenizer": self.tokenizer, "lines": self.train_lines, "plain": self.train, "longest": longest}
        return RedrawnStream(partial(draw_pairs, **facts, p_drop=data.bpe_dropout, seed=seed), **budgets)

    def longest(self) -> int:
        """Tokens of the longest sentence, training and validation, either side, EOS included."""
        sides = [side for pairs in (self.train, self.valid) if pairs is not None for side in pairs]
        return 1 + max(int(lengths_of(side).max()) for side in sides)

    def fingerprint(self) -> str:
        """SHA-256 of the training pairs, by which a resumed run recognizes its data."""
        return self.known_fingerprint or fingerprint_of(self.train)


def _check_ids(name: str, pairs: SentencePairs) -> None:
    """DataError if a program's sentences are not lists of ids; NumPy would cut off fractions and high bits."""
    try:
        for side in pairs:
            if not isinstance(side, FlatSentences):
                ids = np.fromiter(map(operator.index, chain.from_iterable(side)), dtype=np.int32)
                if ids.min(initial=1) <= PAD:
                    raise ValueError(f"{ids.min()} is {'padding' if ids.min() == PAD else 'negative'}")
    except (TypeError, OverflowError, ValueError) as error:
        raise DataError(
            f"corpus: {name} must be source and target, each a list of sentences of ids from 1 to 2^31 - 1, got "
            f"something else ({printable(str(error), 100)})"
        ) from None


def _check_ids_fit(corpus: Corpus, sizes: tuple[int, int]) -> None:
    """DataError if an id is not one of the model's; training might reach it only hours later.   sizes: of both sides"""
    for name, pairs in (("train", corpus.train), ("valid", corpus.valid)):
        for side, size in zip(pairs, sizes, strict=True) if pairs is not None else ():
            highest = max((int(part.max()) for part in FlatSentences.of(side).parts()), default=0)
            if highest >= size:
                raise DataError(f"corpus: {name} must have ids below the vocabulary's size, {size}, got {highest}")


def _check_bpe_dropout(p_drop: float, corpus: Corpus) -> None:
    has_no_merges = isinstance(corpus.tokenizer, PieceTokenizer)
    if p_drop and (has_no_merges or corpus.train_lines is None):
        got = "a tokenizer of pieces, which has no merges" if has_no_merges else "training pairs that are ids already"
        raise ConfigError(f"data.bpe_dropout must be 0 except for text with a BPE tokenizer, got {p_drop} and {got}")


def load_tokenizer(path: str) -> Tokenizer:
    """The tokenizer of a file that `bpe train` wrote, or of a checkpoint (``.npz``).

    Raises:
        DataError: the file does not exist or is damaged; CheckpointError: the same for a checkpoint.
    """
    if not path.endswith(".npz"):
        return Tokenizer.load(path)
    text = load_checkpoint(path, with_optimizer=False).tokenizer_text
    if not text:
        raise DataError(
            f"the tokenizer must be a tokenizer file or a checkpoint with one, got {path}, trained on token ids only"
        )
    return Tokenizer.loads(text, where=path)


def with_vocabulary(config: Config, corpus: Corpus) -> Config:
    """``config`` with model.vocab_size taken from the tokenizer; checks what would otherwise fail hours later.

    Raises:
        ConfigError: there is no vocabulary size, or one other than the tokenizer's, or a sentence is too long, or the
            model needs sources and there are none, or data.bpe_dropout has no text or no merges.
        DataError: there is no tokenizer, and an id is beyond the vocabulary.
    """
    _check_bpe_dropout(config.data.bpe_dropout, corpus)
    model, tokenizer = config.model, corpus.tokenizer
    vocab_size = tokenizer.vocab_size if tokenizer else model.vocab_size
    if vocab_size == 0:
        raise ConfigError("model.vocab_size must be given for a corpus of ids, got 0")
    if tokenizer is None:
        _check_ids_fit(corpus, (model.src_vocab_size or vocab_size, vocab_size))
    if model.vocab_size not in (0, vocab_size):
        raise ConfigError(
            f"model.vocab_size must be the tokenizer's {vocab_size}, got {model.vocab_size}; leave it out or make it "
            "equal"
        )
    src_vocab_size = tokenizer.src_vocab_size if tokenizer else model.src_vocab_size
    if model.src_vocab_size not in (0, src_vocab_size):
        raise ConfigError(
            f"model.src_vocab_size must be left out where a tokenizer encodes both sides, got {model.src_vocab_size}"
        )
    if not model_class(model).is_decoder_only and not lengths_of(corpus.train[0]).any():
        raise ConfigError(
            f"model.kind must be a language model for a one-sided corpus, got a {model_class(model).__name__}, which "
            'reads sources; take model.kind = "language_model", or give sources'
        )
    if model.positions == "learned" and corpus.longest() > model.max_positions:
        raise ConfigError(
            f"model.max_positions must be at least the longest sentence, {corpus.longest()} tokens with its end mark, "
            f"got {model.max_positions}; raise it or lower data.max_length"
        )
    return replace(config, model=replace(model, vocab_size=vocab_size, src_vocab_size=src_vocab_size))
