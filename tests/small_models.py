"""Small models and batches with random values, for tests of the whole model."""

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest

from minitransformer.autograd import no_grad
from minitransformer.config import UNK, ModelConfig, TrainingConfig, model_section
from minitransformer.models import Transformer, build_model
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, LossScale
from minitransformer.text import Batch, pad_batch
from minitransformer.training import GradientAccumulator, train_step
from minitransformer.training.metrics import StepResult
from minitransformer.workers import SERIAL, Workers

VOCAB_SIZE = 13


def small_config(**changes) -> ModelConfig:
    """d_k, d_v and d_model / n_heads all differ, so that no two axes can be taken for each other."""
    kind = changes.get("kind", "transformer")
    shape = dict(vocab_size=VOCAB_SIZE, n_layers=2, d_model=6, dtype="float64")
    if kind != "recurrent":
        shape |= dict(d_ff=10, n_heads=2, d_k=4, d_v=5, max_positions=20)
    return model_section(kind)(**shape | changes)


def small_model(rng: np.random.Generator, xp: ModuleType = np, kernel_mode: str = "fast", **changes) -> Transformer:
    """A model whose norms and biases are random too: at ones and zeros many faults cannot be seen."""
    model = build_model(small_config(**changes), seed=3, xp=xp, kernel_mode=kernel_mode)
    for name in model.parameters.names:
        data = model.parameters[name].data
        data += xp.asarray(0.3 * rng.standard_normal(data.shape), data.dtype)
    return model


def random_sentence(rng: np.random.Generator, length: int, vocab_size: int = VOCAB_SIZE) -> list[int]:
    return rng.integers(UNK, vocab_size, length).tolist()


def random_batch(rng, src_lengths: Sequence[int] = (5, 2, 4), tgt_lengths: Sequence[int] = (3, 6, 1)) -> Batch:
    """Sentences of different lengths, so that every batch has padding on both sides."""
    return pad_batch([random_sentence(rng, n) for n in src_lengths], [random_sentence(rng, n) for n in tgt_lengths])


def batch_of_shape(config: ModelConfig, shape: tuple[int, int, int]) -> Batch:
    """Random sentences that fill the shape, (sentences, src_length, tgt_length): no padding."""
    (sentences, *lengths), rng = shape, np.random.default_rng(0)
    src, tgt = (rng.integers(UNK + 1, config.vocab_size, (sentences, length - 1)).tolist() for length in lengths)
    return pad_batch(src, tgt)


def gradient(model: Transformer, batch: Batch, dropout=None) -> np.ndarray:
    """The gradient of the summed smoothed loss: the whole vector."""
    model.parameters.zero_grad()
    model.loss(batch, dropout)[0].backward()
    return model.parameters.grad.copy()


def train(
    model: Transformer,
    batches: Sequence[Batch],
    updates: int = 1,
    workers: Workers = SERIAL,
    scale: LossScale | None = None,
    **settings,
) -> list[StepResult]:
    """Updates on always the same micro-batches. settings: of TrainingConfig"""
    config, adam = TrainingConfig(**settings), Adam(model.parameters)
    accumulator = GradientAccumulator(model.parameters, workers=workers, scale=scale)
    options = {"config": config, "accumulator": accumulator}
    return [train_step(model, adam, batches, update=update, **options) for update in range(1, updates + 1)]


def losses(steps: Sequence[StepResult]) -> list[float]:
    """Loss and nll of each update, in turn."""
    return [float(value) for step in steps for value in (step.loss, step.nll)]


def reached(model: Transformer, rng: np.random.Generator, length: int, position: int) -> list[int]:
    """The positions of the encoder's output that another token at one position of a sentence changes."""
    ids = rng.integers(3, 13, (1, length))
    changed = ids.copy()
    changed[0, position] = 3 + (ids[0, position] - 2) % 10
    with no_grad():
        before, after = (model.encode(each)[0].data[0] for each in (ids, changed))
    return np.flatnonzero(np.abs(after - before).max(axis=1) > 1e-12).tolist()


def check_derivative(model, batch: Batch, rng: np.random.Generator, rel: float = 1e-6) -> None:
    """The gradient of the loss is its slope in a random direction of each parameter. With dropout on: the masks depend
    on the seed alone, so that the loss is a smooth function."""
    along, weights, step = gradient(model, batch, DropoutMasks(seed=5)), model.parameters.data.copy(), 1e-6

    def loss_at(x: np.ndarray) -> float:
        model.parameters.data[:] = x
        return model.loss(batch, DropoutMasks(seed=5))[0].item()

    for name, shape, offset in model.parameters.table:
        direction, size = np.zeros_like(weights), math.prod(shape)
        direction[offset : offset + size] = rng.standard_normal(size)
        slope = (loss_at(weights + step * direction) - loss_at(weights - step * direction)) / (2 * step)
        assert along @ direction == pytest.approx(slope, rel=rel, abs=1e-7), name
