"""The models and batches that a training step is measured with; this file needs no peer."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minitransformer.config import UNK, ModelConfig
from minitransformer.text import Batch, BatchStream, Tokenizer, pad_batch, read_parallel
from minitransformer.training import Corpus


@dataclass(frozen=True)
class Size:
    """A model, its batch (sentences x tokens, the same on both sides, no padding), how often to measure it and how many
    updates are measured at a time: several for a small model, because in training no update is the first after a pause.
    """

    name: str
    model: ModelConfig
    sentences: int
    tokens: int
    rounds: int
    updates: int = 1


SIZES = (
    Size("multi30k", ModelConfig(vocab_size=10000, n_layers=4, d_model=128, d_ff=256, n_heads=4), 128, 32, 10),
    Size("copy", ModelConfig(vocab_size=16, n_layers=2, d_model=64, d_ff=256, n_heads=4), 64, 16, 25, 8),
    Size("middle", ModelConfig(vocab_size=8000, n_layers=3, d_model=256, d_ff=1024, n_heads=4), 64, 32, 10),
    Size("base", ModelConfig.base(), 64, 32, 5),
)
"""Dropout and label smoothing are 0.1 in all of them, the defaults of ModelConfig."""


REAL = Size("real", ModelConfig(vocab_size=8000, n_layers=4, d_model=128, d_ff=256, n_heads=4, p_drop=0.3), 0, 0, 5, 4)
"""The Multi30k recipe on its own batches (MINITRANSFORMER_DATA)."""


def random_batch(size: Size) -> Batch:
    """Sentences of random words, as long as ``size`` states, BOS or EOS included."""
    rng = np.random.default_rng(0)
    src, tgt = rng.integers(UNK + 1, size.model.vocab_size, (2, size.sentences, size.tokens - 1)).tolist()
    return pad_batch(src, tgt)


def halves(batch: Batch) -> list[Batch]:
    """The batch as two micro-batches of half the sentences."""
    middle = len(batch.src) // 2
    parts = (slice(None, middle), slice(middle, None))
    return [Batch(batch.src[part], batch.tgt_in[part], batch.tgt_out[part], batch.rows[part]) for part in parts]


@dataclass(frozen=True)
class Work:
    """The updates of one round: the micro-batches of each, as taken side by side and as taken in turn."""

    side_by_side: list[list[Batch]]
    in_turn: list[list[Batch]]


def random_work(size: Size) -> Work:
    """The batch in two halves, and whole."""
    batch = random_batch(size)
    return Work([halves(batch)] * size.updates, [[batch]] * size.updates)


def real_work(folder: Path, size: Size) -> Work:
    """Updates of the Multi30k recipe: two micro-batches each, of different lengths, with padding, for all alike."""
    lines = read_parallel(folder / "train.en", folder / "train.de")
    tokenizer = Tokenizer.train([*lines[0], *lines[1]], vocab_size=size.model.vocab_size)
    stream = BatchStream(*Corpus.from_lines(tokenizer, lines).train, src_tokens=2560, tgt_tokens=2048, seed=1)
    micro_batches = [[stream.batch(2 * update), stream.batch(2 * update + 1)] for update in range(size.updates)]
    return Work(micro_batches, micro_batches)


def shape_of(size: Size) -> str:
    model = size.model
    layers = f"{model.n_layers}+{model.n_layers}"
    return (
        f"V {model.vocab_size:,} · d {model.d_model} · {layers} · d_ff {model.d_ff} · {size.sentences} x {size.tokens}"
    )
