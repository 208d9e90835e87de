"""What a run learns from: sentence pairs as ids, from files, from lines or made by a program."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minitransformer.config import DataConfig
from minitransformer.errors import ConfigError, DataError
from minitransformer.text import Tokenizer, encode_parallel, read_parallel

Pairs = tuple[Sequence[list[int]], Sequence[list[int]]]
"""Source and target sentences as ids without BOS and EOS; sentence i of one belongs to sentence i of the other."""
LinePairs = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Corpus:
    """Training pairs, and validation pairs if there are any.

    ``Corpus(train, valid)`` takes ids as they are, for data that a program makes.

    Attributes:
        tokenizer: what made the ids; None where a program made them.
        valid_lines: the validation text itself, which BLEU needs.
        n_empty, n_long: training pairs left out because a side was empty, or longer than data.max_length.
    """

    train: Pairs
    valid: Pairs | None = None
    tokenizer: Tokenizer | None = None
    valid_lines: LinePairs | None = None
    n_empty: int = 0
    n_long: int = 0

    def __post_init__(self):
        for name, pairs in (("train", self.train), ("valid", self.valid)):
            if pairs is not None and not 0 < len(pairs[0]) == len(pairs[1]):
                raise DataError(
                    f"corpus: {name} must have as many source as target sentences and at least one, "
                    f"got {len(pairs[0])} and {len(pairs[1])}"
                )

    @classmethod
    def from_lines(
        cls, tokenizer: Tokenizer, train: LinePairs, valid: LinePairs | None = None, *, max_length: int = 256
    ) -> Corpus:
        """Encode (source lines, target lines), both sides with one tokenizer.

        max_length: training pairs with a longer side are left out and counted, tokens with the end mark; validation
            stays whole
        """
        kept = encode_parallel(tokenizer, *train, max_length=max_length)
        valid_ids = valid and (tokenizer.encode_lines(valid[0]), tokenizer.encode_lines(valid[1]))
        return cls((kept.src, kept.tgt), valid_ids, tokenizer, valid, kept.n_empty, kept.n_long)

    @classmethod
    def from_files(cls, config: DataConfig) -> Corpus:
        """Read and encode the files of the [data] section.

        Raises:
            ConfigError: a path is missing in the config.
            DataError: a file is missing, empty, misaligned or not UTF-8.
        """
        needed = ["train_src", "train_tgt", "tokenizer"]
        if config.valid_src or config.valid_tgt:
            needed += ["valid_src", "valid_tgt"]
        for name in needed:
            if not getattr(config, name):
                remedy = "make one with `minitransformer bpe train`" if name == "tokenizer" else "name a text file"
                raise ConfigError(f"data.{name} must be a path, got nothing; {remedy}")
        tokenizer = Tokenizer.load(config.tokenizer)
        train = read_parallel(config.train_src, config.train_tgt)
        valid = read_parallel(config.valid_src, config.valid_tgt) if config.valid_src else None
        return cls.from_lines(tokenizer, train, valid, max_length=config.max_length)

    def longest(self) -> int:
        """Tokens of the longest sentence, training and validation, either side, EOS included."""
        sides = [side for pairs in (self.train, self.valid) if pairs is not None for side in pairs]
        return 1 + max(len(ids) for side in sides for ids in side)

    def fingerprint(self) -> str:
        """SHA-256 of the training pairs, by which a resumed run knows its data again."""
        digest = hashlib.sha256()
        for side in self.train:
            digest.update(np.array([len(ids) for ids in side], dtype="<i8").tobytes())
            digest.update(np.fromiter((one for ids in side for one in ids), dtype="<i8").tobytes())
        return digest.hexdigest()
