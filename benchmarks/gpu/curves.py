"""Does a precision learn as float32 does? Its loss curve beside those of three seeds in float32."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

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
CLOSE = {"float32": 1e-4, "tf32": 2e-3, "bfloat16": 1e-2}
"""Relative differences of losses that the rounding of a precision explains in 20 updates at a tenth of the usual rate.

On NumPy fast and plain kernels differ by 1e-5 then (2e-4 at the usual rate), and parameters that are off by up to 2^-11
or 2^-9 of their size by 6e-5 or 1.3e-4. Learning itself changes the loss by 5e-2.
"""
SLOW = 0.1
T_QUANTILE = 4.303
"""97.5 % point of Student's t for two degrees of freedom, one less than there are seeds."""


def reversal(rng: np.random.Generator, config: ModelConfig, sentences: int) -> Batch:
    """Sequences of 2 to 20 words, to be reversed."""
    sources = [rng.integers(UNK + 1, config.vocab_size, rng.integers(2, 21)).tolist() for _ in range(sentences)]
    return pad_batch(sources, [source[::-1] for source in sources])


def curve(
    config: ModelConfig,
    precision: str,
    seed: int,
    updates: int,
    device: Device,
    kernel_mode: str = "fast",
    sentences: int = 128,
    lr_scale: float = 1.0,
) -> list[float]:
    """The loss of each update; the same data for every precision of a seed."""
    model = Transformer(config, seed=seed, xp=device.xp, precision=precision, kernel_mode=kernel_mode)
    adam, rng = Adam(model.parameters), np.random.default_rng(seed)
    accumulator = GradientAccumulator(model.parameters, scale=LossScale.for_precision(precision))
    training = TrainingConfig(seed=seed, warmup_steps=200, lr_scale=lr_scale)
    options = {"config": training, "accumulator": accumulator}
    batches = (reversal(rng, config, sentences) for _ in range(updates))
    steps = [train_step(model, adam, [batch], update=update, **options) for update, batch in enumerate(batches, 1)]
    return [float(step.loss) for step in steps]


def like_the_cpu(device: Device, updates: int = 20, config: ModelConfig = MODEL, sentences: int = 32) -> dict:
    """The losses of the first updates with our kernels, in each precision, beside those of the plain rules on NumPy in
    float32; without dropout, whose masks differ. ``failed`` if one is further off than its precision explains."""
    config = replace(config, p_drop=0.0)
    wanted = curve(config, "float32", 1, updates, Device(np, "cpu"), "simple", sentences, SLOW)

    def difference(precision: str) -> dict:
        found = curve(config, precision, 1, updates, device, sentences=sentences, lr_scale=SLOW)
        off = float(np.max(np.abs(np.divide(found, wanted) - 1.0)))  # NaN if one is
        wrong = not off < CLOSE[precision]
        entry = {"largest relative difference": off, "losses": found}
        return entry | ({"failed": f"losses differ by {off:.1e} of those of the CPU"} if wrong else {})

    results = one_by_one(CLOSE, difference, {"CPU": wanted}, device.wait)
    parts = [(name, results[name]) for name in CLOSE if "losses" in results.get(name, {})]
    says = ", ".join(f"{name} {each['largest relative difference']:.0e}" for name, each in parts)
    return results | {"says": f"relative differences of {updates} losses: {says}"}


def compare(seeds: Sequence[Sequence[float]], other: Sequence[float], window: int) -> dict:
    """Whether the mean loss of ``other`` lies in the band of the three seeds and in the interval of one more seed, for
    each window of updates.

    The band reaches from the lowest to the highest of the seeds; a fourth one lies in it only half the time. The
    interval is mean +- t s sqrt(1 + 1 / n), which contains another draw 95 times in a hundred, given n draws with
    standard deviation s.
    """
    windows = []
    for start in range(0, len(other) - window + 1, window):
        *means, theirs = (statistics.fmean(losses[start : start + window]) for losses in (*seeds, other))
        middle, reach = statistics.fmean(means), T_QUANTILE * statistics.stdev(means) * math.sqrt(1 + 1 / len(means))
        judged = {"within_band": min(means) <= theirs <= max(means), "within_interval": abs(theirs - middle) <= reach}
        windows.append({"seeds": means, "other": theirs, "interval": [middle - reach, middle + reach], **judged})
    counts = {key: sum(each[key] for each in windows) for key in ("within_band", "within_interval")}
    return {"windows": windows, **counts, "of": len(windows)}


def curves(device: Device, precisions: Sequence[str], updates: int = 400, window: int = 50) -> dict:
    """`compare` for each precision, with a fourth seed."""
    ours = [curve(MODEL, "float32", seed, updates, device) for seed in SEEDS]
    another = len(SEEDS) + 1
    results = one_by_one(
        precisions,
        lambda precision: compare(ours, curve(MODEL, precision, another, updates, device), window),
        {"updates": updates, "window": window, "seeds": len(SEEDS)},
        device.wait,
    )
    judged = [(name, results[name]) for name in precisions if "of" in results.get(name, {})]
    says = ", ".join(f"{name} {each['within_interval']} of {each['of']}" for name, each in judged)
    return results | {"says": f"windows within the interval of {len(SEEDS)} seeds: {says}"}
