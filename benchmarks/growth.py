"""How time and memory of a training step grow with sentence length, batch, width, vocabulary and layers.

    python -m benchmarks.growth [--quick]

One size at a time is doubled, the others stay. On a log-log plot a power law is a straight line; its slope is the
exponent. Beside each measured exponent stands the one of the matrix products' FLOPs at the same sizes, and the one that
Table 1 of the paper promises for ever larger sizes: self-attention is O(n^2 d), everything else O(n d^2).
Time is the lowest of some steps on one BLAS thread; memory is the peak that NumPy asked for within a step, parameters
and Adam's vectors not counted. Results go to benchmarks/results/growth.MAKER.json, .md and .png, MAKER that of the
processor; --quick writes nothing.
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from benchmarks.common.machine import machine_facts, of_this_maker
from benchmarks.common.matrix_products import record_step
from benchmarks.common.tables import facts_list, markdown_head, markdown_row, save_results
from minitransformer.allocator import keep_freed_memory
from minitransformer.config import UNK, ModelConfig, TrainingConfig
from minitransformer.figures import png_bytes
from minitransformer.figures.canvas import new_figure
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import pad_batch
from minitransformer.training import train_step
from minitransformer.workers import limited_threads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    seconds = []
    for update in range(1, steps + 2):
        began = time.perf_counter()
        train_step(model, adam, [batch], update=update, config=training)
        seconds.append(time.perf_counter() - began)
    tracemalloc.start()
    train_step(model, adam, [batch], update=steps + 2, config=training)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    flops = sum(product.flops for product in record_step(model, batch))
    return {"seconds": min(seconds[1:]), "bytes": peak, "flops": flops}  # the first step pays for fresh memory


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


def draw(results: Sequence[dict]) -> "Figure":
    """A column for each axis: seconds above, megabytes below, both log-log, with the fitted lines dashed."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    figure = new_figure(3.2 * len(results), 6.0)
    panels = figure.subplots(2, len(results), squeeze=False)
    rows = (("seconds", 1.0, "seconds per step"), ("bytes", 1e6, "peak memory of a step, MB"))
    for column, result in enumerate(results):
        for row, (key, unit, label) in enumerate(rows):
            axes, sizes = panels[row][column], np.array(result["sizes"], float)
            values = np.array(result[key]) / unit
            slope = result["exponents"][key]
            axes.loglog(sizes, values, "ko-", linewidth=1.2, markersize=4, label="measured")
            fitted = sizes[-FITTED:]
            middle = np.exp(np.log([fitted, values[-FITTED:]]).mean(axis=1))  # a fitted line goes through the mean
            line = middle[1] * (fitted / middle[0]) ** slope
            axes.loglog(fitted, line, "--", color="#d55e00", linewidth=2.5, alpha=0.7, label=f"slope {slope:.2f}")
            axes.set_xticks(sizes, [f"{int(size):,}" for size in sizes], fontsize=7)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.minorticks_off()
            axes.grid(True, color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False, fontsize=8)
            axes.set_ylabel(label if column == 0 else "")
        panels[0][column].set_title(result["axis"], fontsize=11)
        panels[1][column].set_xlabel(result["unit"], fontsize=9)
    return figure


def markdown(facts: dict, results: Sequence[dict]) -> str:
    shape = ", ".join(f"{name} {size:,}" for name, size in START.items())
    lines = ["# How a training step grows", "", f"![log-log plot]({of_this_maker('growth')}.png)", ""]
    lines += [f"Exponents over the {FITTED} largest sizes; what is not doubled stays at {shape}.", ""]
    lines += ["`python -m benchmarks.growth`", ""]
    head = ["doubled", "from - to", "time", "FLOPs", "time, in the limit", "memory", "memory, in the limit"]
    lines += markdown_head(head)
    limits = {axis.name: axis for axis in AXES}
    for result in results:
        fitted, axis = result["exponents"], limits[result["axis"]]
        numbers = [f"{fitted['seconds']:.2f}", f"{fitted['flops']:.2f}", f"{axis.time_limit}"]
        numbers += [f"{fitted['bytes']:.2f}", f"{axis.memory_limit}"]
        span = f"{result['sizes'][0]:,} - {result['sizes'][-1]:,}"
        lines.append(markdown_row([f"{axis.name} ({axis.unit})", span, *numbers]))
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the three smallest sizes, and no results are written")
    options = parser.parse_args(argv)
    keep_freed_memory()
    facts = machine_facts()
    with limited_threads(1):
        results = [
            grow(axis, axis.sizes[:FITTED] if options.quick else axis.sizes, 1 if options.quick else 5) for axis in AXES
        ]
    text, picture = markdown(facts | {"threads": 1}, results), png_bytes(draw(results))
    print(text)
    if not options.quick:
        table = {"machine": facts | {"threads": 1}, "start": START, "results": results}
        save_results(of_this_maker("growth"), table, text, picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
