"""How time and memory of a training step grow with sentence length, batch, width, vocabulary and layers.

    python -m benchmarks.growth [--quick]

One size at a time is doubled while the others stay fixed. The exponent of a power law is its slope on a log-log plot.
Each measured exponent is shown beside that of the matrix products' FLOPs at the same sizes, and beside the one that
Table 1 of the paper promises as sizes go to infinity: self-attention is O(n^2 d), everything else O(n d^2). Time is the
lowest of some steps on one thread; memory is the peak that NumPy asked for within a step, parameters and Adam's vectors
not counted.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from benchmarks.common.matrix_products import record_step
from benchmarks.common.tables import run_benchmark
from examples.report import markdown_table, time_and_memory
from minitransformer.config import UNK, ModelConfig, TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import pad_batch
from minitransformer.training import train_step
from minitransformer.workers import limit_threads

START = {"length": 32, "batch": 16, "width": 64, "vocabulary": 1000, "layers": 2}
FITTED = 3  # the largest sizes of an axis, from which the exponents are fitted


@dataclass(frozen=True)
class Axis:
    """What is doubled, over which sizes, and the exponents of time and memory as it goes to infinity [Table 1]."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    time_limit: int
    memory_limit: int


AXES = (
    Axis("length", "tokens on each side", (32, 64, 128, 256, 512, 1024), 2, 2),
    Axis("batch", "sentences", (4, 8, 16, 32, 64, 128), 1, 1),
    Axis("width", "d_model, d_ff = 4 d_model", (32, 64, 128, 256, 512), 2, 1),
    Axis("vocabulary", "V, tokens", (1000, 2000, 4000, 8000, 16000, 32000), 1, 1),
    Axis("layers", "N of encoder and decoder", (1, 2, 4, 8, 16), 1, 1),
)


def measure(sizes: dict[str, int], steps: int) -> dict[str, float]:
    """Seconds, peak bytes and FLOPs of one step at these sizes."""
    width = sizes["width"]
    config = ModelConfig(
        vocab_size=sizes["vocabulary"], n_layers=sizes["layers"], d_model=width, d_ff=4 * width, n_heads=4
    )
    words = np.random.default_rng(0).integers(UNK + 1, config.vocab_size, (2, sizes["batch"], sizes["length"] - 1))
    batch, training = pad_batch(*words.tolist()), TrainingConfig()
    model = Transformer(config, seed=1)
    adam = Adam(model.parameters)
    found = time_and_memory(
        lambda: train_step(model, adam, [batch], update=adam.step_count + 1, config=training), steps
    )
    return found | {"flops": sum(product.flops for product in record_step(model, batch))}


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Slope of log(values) over log(sizes), least squares, at the ``FITTED`` largest sizes."""
    logs = np.log([sizes[-FITTED:], values[-FITTED:]])
    return float(np.polyfit(*logs, 1)[0])


def grow(axis: Axis, sizes: Sequence[int], steps: int) -> dict:
    """The axis measured at ``sizes``, and its exponents."""
    rows = [measure(START | {axis.name: size}, steps) for size in tqdm(sizes, desc=axis.name, unit="size", leave=False)]
    result = {"axis": axis.name, "unit": axis.unit, "sizes": list(sizes)}
    result |= {key: [row[key] for row in rows] for key in ("seconds", "bytes", "flops")}
    return result | {"exponents": {key: exponent(sizes, result[key]) for key in ("seconds", "bytes", "flops")}}


def markdown(results: Sequence[dict]) -> list[str]:
    shape = ", ".join(f"{name} {size:,}" for name, size in START.items())
    head = ["doubled", "from - to", "time", "FLOPs", "time, in the limit", "memory", "memory, in the limit"]
    limits, rows = {axis.name: axis for axis in AXES}, []
    for result in results:
        fitted, axis = result["exponents"], limits[result["axis"]]
        numbers = [f"{fitted['seconds']:.2f}", f"{fitted['flops']:.2f}", f"{axis.time_limit}"]
        numbers += [f"{fitted['bytes']:.2f}", f"{axis.memory_limit}"]
        span = f"{result['sizes'][0]:,} - {result['sizes'][-1]:,}"
        rows.append([f"{axis.name} ({axis.unit})", span, *numbers])
    about = f"Exponents over the {FITTED} largest sizes; what is not doubled stays at {shape}."
    command = "`python -m benchmarks.growth`"
    return ["# How a training step grows", about, command, markdown_table(head, rows)]


def measure_all(quick: bool) -> tuple[dict, list[str]]:
    with limit_threads(1):
        results = [grow(axis, axis.sizes[:FITTED] if quick else axis.sizes, 1 if quick else 5) for axis in AXES]
    return {"start": START, "results": results}, markdown(results)


def main(argv: Sequence[str] | None = None) -> int:
    return run_benchmark("growth", __doc__, measure_all, argv, {"threads": 1})


if __name__ == "__main__":
    sys.exit(main())
