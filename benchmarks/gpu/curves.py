"""Does a precision learn as float32 does? Its loss curve beside those of three seeds in float32."""

from collections.abc import Sequence

import numpy as np

from benchmarks.compare_curves import compare
from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device
from minitransformer.config import UNK, ModelConfig, TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.text import Batch, pad_batch
from minitransformer.training import GradientAccumulator, train_step

MODEL = ModelConfig(vocab_size=1000, n_layers=3, d_model=256, d_ff=1024, n_heads=4)
SEEDS = (1, 2, 3)


def reversal(rng: np.random.Generator, config: ModelConfig, sentences: int = 128) -> Batch:
    """Sequences of 2 to 20 words, to be said backwards."""
    sources = [rng.integers(UNK + 1, config.vocab_size, rng.integers(2, 21)).tolist() for _ in range(sentences)]
    return pad_batch(sources, [source[::-1] for source in sources])


def curve(config: ModelConfig, precision: str, seed: int, updates: int, device: Device) -> dict[int, float]:
    """The loss of each update; the same data for every precision of a seed."""
    model = Transformer(config, seed=seed, xp=device.xp, precision=precision)
    adam, rng = Adam(model.parameters), np.random.default_rng(seed)
    accumulator = GradientAccumulator(model.parameters, scale=LossScale.for_precision(precision))
    training = TrainingConfig(seed=seed, warmup_steps=200)
    options = {"config": training, "accumulator": accumulator}
    steps = [
        train_step(model, adam, [reversal(rng, config)], update=update, **options) for update in range(1, updates + 1)
    ]
    return {update: step.read().loss for update, step in enumerate(steps, start=1)}


def curves(
    device: Device, precisions: Sequence[str], updates: int = 400, window: int = 50, config: ModelConfig = MODEL
) -> dict:
    """For each precision, with a fourth seed: in how many windows its mean loss lies within the band of the three seeds
    of float32, and where a fourth of them would lie 95 times in a hundred."""
    ours = [curve(config, "float32", seed, updates, device) for seed in SEEDS]
    results: dict = {"updates": updates, "window": window, "seeds": len(SEEDS)}
    another = len(SEEDS) + 1
    return one_by_one(
        precisions, lambda precision: compare(ours, curve(config, precision, another, updates, device), window), results
    )
