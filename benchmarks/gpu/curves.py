"""Does a precision learn as float32 does? Its loss curve beside those of three seeds in float32."""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device
from minitransformer.config import UNK, ModelConfig, TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam, LossScale
from minitransformer.text import Batch, pad_batch
from minitransformer.training import GradientAccumulator, train_step

MODEL = ModelConfig(vocab_size=1000, n_layers=3, d_model=256, d_ff=1024, n_heads=4)
SEEDS = (1, 2, 3)
T_QUANTILE = 4.303
"""97.5 % point of Student's t for two degrees of freedom, one less than there are seeds."""


def reversal(rng: np.random.Generator, config: ModelConfig, sentences: int = 128) -> Batch:
    """Sequences of 2 to 20 words, to be said backwards."""
    sources = [rng.integers(UNK + 1, config.vocab_size, rng.integers(2, 21)).tolist() for _ in range(sentences)]
    return pad_batch(sources, [source[::-1] for source in sources])


def curve(config: ModelConfig, precision: str, seed: int, updates: int, device: Device) -> list[float]:
    """The loss of each update; the same data for every precision of a seed."""
    model = Transformer(config, seed=seed, xp=device.xp, precision=precision)
    adam, rng = Adam(model.parameters), np.random.default_rng(seed)
    accumulator = GradientAccumulator(model.parameters, scale=LossScale.for_precision(precision))
    training = TrainingConfig(seed=seed, warmup_steps=200)
    options = {"config": training, "accumulator": accumulator}
    steps = [
        train_step(model, adam, [reversal(rng, config)], update=update, **options) for update in range(1, updates + 1)
    ]
    return [step.loss for step in steps]


def compare(seeds: Sequence[Sequence[float]], other: Sequence[float], window: int) -> dict:
    """Whether the mean loss of ``other`` lies in the band of the three seeds and in the interval of one more seed, for
    each window of updates.

    The band is the lowest to the highest of the seeds; a fourth one lies in it only half the time. The interval is
    mean +- t s sqrt(1 + 1 / n), where another draw lies 95 times in a hundred, given n with standard deviation s.
    """
    windows = []
    for start in range(0, len(other) - window + 1, window):
        *means, theirs = (statistics.fmean(losses[start : start + window]) for losses in (*seeds, other))
        middle, reach = statistics.fmean(means), T_QUANTILE * statistics.stdev(means) * math.sqrt(1 + 1 / len(means))
        judged = {"within_band": min(means) <= theirs <= max(means), "within_interval": abs(theirs - middle) <= reach}
        windows.append({"seeds": means, "other": theirs, "interval": [middle - reach, middle + reach], **judged})
    counts = {key: sum(each[key] for each in windows) for key in ("within_band", "within_interval")}
    return {"windows": windows, **counts, "of": len(windows)}


def curves(
    device: Device, precisions: Sequence[str], updates: int = 400, window: int = 50, config: ModelConfig = MODEL
) -> dict:
    """`compare` for each precision, with a fourth seed."""
    ours = [curve(config, "float32", seed, updates, device) for seed in SEEDS]
    results: dict = {"updates": updates, "window": window, "seeds": len(SEEDS)}
    another = len(SEEDS) + 1
    return one_by_one(
        precisions, lambda precision: compare(ours, curve(config, precision, another, updates, device), window), results
    )
