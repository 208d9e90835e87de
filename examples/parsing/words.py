"""Whole words as the source: rare ones are replaced by classes of their shape, and in training others sometimes are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from minitransformer.batch import Batch
from minitransformer.config import UNK
from minitransformer.training.micro_batches import MicroBatches

RARE, RARE_CLASS = 3, 10
"""A word seen fewer times than this stands as its class; a class that has fewer words than this has no suffix."""
WORD_DROPOUT = 0.25
"""In training a word seen c times stands as its class with probability 0.25 / (0.25 + c)."""


def word_class(word: str, with_suffix: bool = True) -> str:
    """``<unk-C-ing>`` of Cloning: capitals (A all, C the first, M others), digits, a hyphen, the last three letters."""
    capitals = "-A" if word.isupper() else "-C" if word[:1].isupper() else "-M" if word != word.lower() else ""
    digits, hyphen = "-d" if any(map(str.isdigit, word)) else "", "-h" if "-" in word[1:-1] else ""
    suffix = f"-{word[-3:].lower()}" if with_suffix and len(word) > 4 and word[-3:].isalpha() else ""
    return f"<unk{capitals}{digits}{hyphen}{suffix}>"


class Words:
    """The vocabulary of the source: frequent words of the training text, and the classes of rare ones.

    Attributes:
        names: of all ids from UNK + 1 on.
        class_of: (V,) the class that may replace each id   p_drop: (V,) how probably it does in training
    """

    def __init__(self, counts: Counter[str]):
        frequent = [word for word, count in counts.most_common() if count >= RARE]
        rare = Counter(word_class(word) for word, count in counts.items() if count < RARE)
        classes = {name for name, count in rare.items() if count >= RARE_CLASS}
        classes |= {word_class(word, with_suffix=False) for word, count in counts.items() if count < RARE}
        self.names = [*sorted(classes), *sorted(frequent, key=lambda word: (-counts[word], word))]
        self._classes = {name: UNK + 1 + number for number, name in enumerate(self.names[: len(classes)])}
        self._words = {name: UNK + 1 + number for number, name in enumerate(self.names) if number >= len(classes)}
        self.class_of, self.p_drop = np.arange(self.n_ids, dtype=np.int32), np.zeros(self.n_ids)
        for word, number in self._words.items():
            self.class_of[number] = self.class_id(word)
            self.p_drop[number] = WORD_DROPOUT / (WORD_DROPOUT + counts[word])

    @property
    def n_ids(self) -> int:
        return UNK + 1 + len(self.names)

    def encode(self, words: Sequence[str]) -> list[int]:
        return [self._words.get(word) or self.class_id(word) for word in words]

    def class_id(self, word: str) -> int:
        """The id of its class, or of the class without a suffix, or UNK."""
        return self._classes.get(word_class(word)) or self._classes.get(word_class(word, with_suffix=False), UNK)


class WordDropout(MicroBatches):
    """``batches`` with some words of the source replaced by their classes, drawn from (seed, update, micro-batch)."""

    def __init__(self, batches: MicroBatches, words: Words):
        super().__init__(batches.stream, batches.per_update, batches.rank, batches.size)
        self.words = words

    def of_rank(self, update: int) -> list[Batch]:
        return [self._drop(batch, (update, number)) for number, batch in enumerate(super().of_rank(update))]

    def _drop(self, batch: Batch, key: tuple[int, int]) -> Batch:
        draws = np.random.default_rng((self.stream.seed, *key, self.rank)).random(batch.src.shape)
        is_dropped = draws < self.words.p_drop[batch.src]
        return replace(batch, src=np.where(is_dropped, self.words.class_of[batch.src], batch.src))
