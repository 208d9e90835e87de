"""The cost of detecting NaN and infinity: the check of every update, and `detect_anomaly`.

    python -m tests.reliability.check_cost

The default check is too cheap to show in a comparison of runs, so its calls are counted and timed separately: one for
every rule that is applied, forward and backward, and one of the loss and the norm. Writes results/check_cost.json.
"""

import json
import time
import timeit
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from benchmarks.common.machine import machine_facts
from minitransformer.autograd import anomaly, detect_anomaly, tape, tensor
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import pad_batch
from minitransformer.training import GradientAccumulator, train_step
from minitransformer.workers import limited_threads

SIZES = {
    "tiny": (ModelConfig(vocab_size=300, n_layers=1, d_model=32, d_ff=128, n_heads=4), 4, 8),
    "small": (ModelConfig(vocab_size=8000, n_layers=2, d_model=256, d_ff=1024, n_heads=4), 24, 25),
}
UPDATES = 12


def updates(config: ModelConfig, sentences: int, length: int) -> Callable[[], float]:
    """A function that makes one update, with one BLAS thread, and returns its CPU seconds."""
    rng = np.random.default_rng(0)
    model = Transformer(config, seed=1)
    src, tgt = ([rng.integers(4, config.vocab_size, length).tolist() for _ in range(sentences)] for _ in range(2))
    batches, adam = [pad_batch(src, tgt)], Adam(model.parameters)
    accumulator = GradientAccumulator(model.parameters)

    def update() -> float:
        began = time.process_time()
        options = {"update": adam.step_count + 1, "config": TrainingConfig(), "accumulator": accumulator}
        with limited_threads(1):
            train_step(model, adam, batches, **options)
        return time.process_time() - began

    return update


def count_checks(update: Callable[[], float]) -> int:
    """The number of checks in an update."""
    calls = []
    originals = tensor.check_forward, tape.check_backward
    tensor.check_forward = tape.check_backward = lambda *arguments: calls.append(1)
    try:
        update()
    finally:
        tensor.check_forward, tape.check_backward = originals
    return len(calls)


def measure(name: str) -> dict:
    update = updates(*SIZES[name])
    number = 100_000
    one_check = min(timeit.repeat(lambda: anomaly.check_forward("", (), ()), number=number, repeat=5)) / number
    accepts = GradientAccumulator(Transformer(SIZES["tiny"][0]).parameters).is_finite
    one_decision = min(timeit.repeat(lambda: accepts(1.0, 1.0), number=number, repeat=5)) / number
    seconds: dict[str, list[float]] = {"default": [], "detect_anomaly": []}
    for _ in range(UPDATES):  # in turn, so that other load on the machine affects both
        for mode, context in (("default", nullcontext()), ("detect_anomaly", detect_anomaly())):
            with context:
                seconds[mode].append(update())
    default, detecting = (min(times) for times in seconds.values())
    cost = count_checks(update) * one_check + one_decision
    return {
        "CPU milliseconds of an update": round(1e3 * default, 2),
        "microseconds of its checks": round(1e6 * cost, 1),
        "share of the checks": f"{cost / default:.3%}",
        "with detect_anomaly, times as long": round(detecting / default, 2),
    }


def main() -> None:
    facts = {"command": "python -m tests.reliability.check_cost"} | machine_facts()
    results = {"facts": facts} | {name: measure(name) for name in SIZES}
    text = json.dumps(results, indent=1)
    (Path(__file__).parent / "results" / "check_cost.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
