"""Training on several ranks: measured with 1 and 2 ranks here, predicted for many GPUs.

    python -m benchmarks.scaling [--quick]

Measured: the sum of a vector over two ranks by shared memory and by MPI; an update of two ranks with one BLAS thread
each, by both, beside one process with two threads (and beside its own two threads, each with a micro-batch).
Predicted, with every assumption printed: weak and strong scaling of base and big on 1 to 64 GPUs. Results go to
benchmarks/results/scaling.MAKER.json, .md and .png, MAKER that of the processor; --quick writes nothing.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.machine import machine_facts, of_this_maker
from benchmarks.common.tables import facts_list, markdown_head, markdown_row, save_results
from benchmarks.scaling.cost_model import ASSUMED, NETWORKS, fit, ring_seconds, speedup, step_seconds
from minitransformer.config import ModelConfig
from minitransformer.figures import png_bytes
from minitransformer.figures.canvas import new_figure
from minitransformer.planning import parameter_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE_GRADIENT = parameter_count(ModelConfig.base())
LENGTHS = [1 << power for power in range(10, 25, 2)] + [BASE_GRADIENT]  # elements of float32
GPUS = (1, 2, 4, 8, 16, 32, 64)
TOKENS = 25_000  # a batch of the paper, on each side [sec. 5.1]
MODELS = {"base": ModelConfig.base(), "big": ModelConfig.big()}
RECORD = (
    "Public record (NVIDIA DeepLearningExamples, big, weak scaling on 8 A100): 551,599 / 82,059 tokens/s = 6.7 of 8 "
)
RECORD += "in mixed precision, 347,936 / 51,057 = 6.8 of 8 in TF32."


def mpiexec() -> str | None:
    """The command that starts MPI ranks, or None where mpi4py or an MPI is missing."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    return shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")


def on_ranks(start: str, blas_threads: int, **task: object) -> object:
    """What `rank.py` measures: in one process ("alone"), or on two ranks of ``"launch"`` or ``"mpiexec"``."""
    words = [sys.executable, "-m", "benchmarks.scaling.rank", "2" if start == "launch" else "0", json.dumps(task)]
    if start == "mpiexec":
        words = [mpiexec(), "-n", "2", *words]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(blas_threads)}
    done = subprocess.run(
        words, env=environment, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def measure_sums(quick: bool) -> list[dict]:
    """Seconds of a sum over two ranks by bytes; lowest of some, the two ways in turn."""
    task = {"what": "sum", "lengths": LENGTHS[:4] if quick else LENGTHS, "repeats": 2 if quick else 10}
    runs = {start: [on_ranks(start, 1, **task) for _ in range(1 if quick else 3)] for start in ("launch", "mpiexec")}
    return [
        {"bytes": rows[0]["bytes"]} | {start: min(run[number]["seconds"] for run in runs[start]) for start in runs}
        for number, rows in enumerate(zip(*runs["launch"], strict=True))
    ]


def measure_steps(name: str, quick: bool) -> dict:
    """Seconds per update, lowest of some, of the size ``name``."""
    task = {"what": "step", "size_name": name, "quick": quick, "rounds": 1 if quick else 5, "workers": 1}
    launched, by_mpi = (on_ranks(start, 1, **task) for start in ("launch", "mpiexec"))
    return {
        "size": name,
        "parameters": launched["parameters"],
        "one process, two BLAS threads": on_ranks("alone", 2, **task)["alone"],
        "one process, two workers": on_ranks("alone", 1, **task | {"workers": 2})["alone"],
        "two ranks, shared memory": launched["sum"],
        "two ranks, MPI": by_mpi["sum"],
        "two ranks, no sum": launched["alone"],
    }


def predictions() -> list[dict]:
    """Speedups over one GPU for every model, kind of scaling and network."""
    rows = []
    for name, config in MODELS.items():
        for weak in (True, False):
            for network in NETWORKS:
                gpus = [n for n in GPUS if n <= ASSUMED.gpus or network is not NETWORKS[0]]
                for overlap in (True, False):
                    speedups = [speedup(config, TOKENS, n, ASSUMED, network, weak, overlap) for n in gpus]
                    row = {"model": name, "weak": weak, "network": network.name, "overlap": overlap}
                    rows.append(row | {"gpus": gpus, "speedups": speedups})
    return rows


def draw(sums: Sequence[dict], model: tuple[float, float], predicted: Sequence[dict]) -> "Figure":
    """Measured sums with the fitted line, log-log; beside it what is predicted for base and big."""
    figure = new_figure(13.0, 4.2)
    left, *others = figure.subplots(1, 3)
    n_bytes = [row["bytes"] for row in sums]
    left.loglog(n_bytes, [row["launch"] for row in sums], "ko", markersize=4, label="shared memory")
    left.loglog(n_bytes, [row["mpiexec"] for row in sums], "kx", markersize=4, label="MPI")
    fitted = [ring_seconds(each, 2, model[1], model[0]) for each in n_bytes]
    left.loglog(n_bytes, fitted, "--", color="#d55e00", label="latency + bytes / bandwidth")
    left.set_xlabel("bytes")
    left.set_ylabel("seconds")
    left.set_title("measured: two ranks", fontsize=11)
    colours = dict(zip((network.name for network in NETWORKS), ("#000000", "#0072b2", "#d55e00"), strict=True))
    for axes, name in zip(others, MODELS, strict=True):
        axes.loglog(GPUS, GPUS, ":", color="#999999", label="linear")
        for row in (row for row in predicted if row["model"] == name and row["overlap"]):
            kind = "weak" if row["weak"] else "strong"
            style = {"linestyle": "-" if row["weak"] else "--", "color": colours[row["network"]]}
            axes.loglog(row["gpus"], row["speedups"], marker=".", label=f"{kind}, {row['network']}", **style)
        axes.set_xticks(GPUS, [str(each) for each in GPUS])
        axes.set_xlabel("GPUs")
        axes.set_ylabel("tokens/s, multiple of one GPU")
        axes.set_title(f"predicted, not measured: {name}", fontsize=11)
    for axes in (left, *others):
        axes.minorticks_off()
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.legend(frameon=False, fontsize=6.5, handlelength=4.5)
    return figure


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [*markdown_head(head), *map(markdown_row, rows), ""]


def measured_text(sums: Sequence[dict], model: tuple[float, float], steps: Sequence[dict]) -> list[str]:
    lines = ["## Measured here", "", "Sum of float32 over two ranks of one machine, milliseconds, lowest of some:", ""]
    rows = []
    for row in sums:
        fitted = ring_seconds(row["bytes"], 2, model[1], model[0])
        rows.append([f"{row['bytes']:,}", *(f"{1e3 * each:.3f}" for each in (row["launch"], row["mpiexec"], fitted))])
    lines += table(["bytes", "shared memory", "MPI", "fitted to MPI"], rows)
    lines += [f"Fitted: latency {1e6 * model[0]:.1f} microseconds, bandwidth {model[1] / 1e9:.2f} GB/s.", ""]
    lines += ["Seconds per update of the same batch, lowest of some, and throughput over one process:", ""]
    names = [name for name in steps[0] if name not in ("size", "parameters")]
    rows = []
    for row in steps:
        base = row[names[0]]
        cells = [f"{row[name]:.3f} ({base / row[name]:.2f})" for name in names]
        rows.append([f"{row['size']}, {row['parameters']:,} parameters", *cells])
    lines += table(["size", *names], rows)
    return lines


def predicted_text(predicted: Sequence[dict]) -> list[str]:
    network = [f"{each.name}: {each.bandwidth / 1e9:g} GB/s, {1e6 * each.latency:g} microseconds" for each in NETWORKS]
    lines = ["## Predicted, not measured", "", "Assumptions:", ""]
    lines += [
        f"- {ASSUMED.rate / 1e12:g} TFLOP/s sustained by a GPU, whatever its batch: the goal of 36 ms a step, base"
    ]
    lines += [f"- {each} a message, one direction" for each in network]
    lines += ["- float32 gradients; a ring in each machine of 8 GPUs, then one over the machines; two thirds of a step"]
    lines += ["  are backward, behind which all sums hide but that of the tied matrix; no padding, no late ranks", ""]
    for name, config in MODELS.items():
        alone = step_seconds(config, TOKENS, 1, ASSUMED, NETWORKS[0])
        counts = f"{parameter_count(config):,} parameters"
        lines += [f"- {name}: {counts}, {1e3 * alone:.1f} ms for {TOKENS:,} + {TOKENS:,} tokens on one GPU"]
    lines += ["", "Tokens/s as a multiple of one GPU's, with overlap (and without):", ""]
    rows = []
    for row in (row for row in predicted if row["overlap"]):
        other = next(
            each
            for each in predicted
            if each | {"overlap": True, "speedups": 0} == row | {"speedups": 0} and not each["overlap"]
        )
        cells = [f"{a:.1f} ({b:.1f})" for a, b in zip(row["speedups"], other["speedups"], strict=True)]
        cells += [""] * (len(GPUS) - len(cells))
        rows.append([row["model"], "weak" if row["weak"] else "strong", row["network"], *cells])
    lines += table(["model", "scaling", "network", *map(str, GPUS)], rows)
    lines += [f"Weak: {TOKENS:,} tokens a side on each GPU. Strong: the paper's batch shared by all.", "", RECORD]
    lines += [
        "The model leaves out ranks that wait for the longest batch, and kernels that are too small to fill a GPU.",
        "",
    ]
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats, and no results are written")
    options = parser.parse_args(argv)
    predicted = predictions()
    if mpiexec() is None:
        print("\n".join(predicted_text(predicted)))
        print("scaling: measurements skipped, mpi4py or an MPI is missing: pip install -e '.[mpi]'")
        return 0
    facts = machine_facts() | {"threads": "1 for each of 2 ranks, 2 for one process"}
    sums = measure_sums(options.quick)
    model = fit([row["bytes"] for row in sums], [row["mpiexec"] for row in sums], 2)
    steps = [measure_steps(name, options.quick) for name in ("multi30k", "base")]
    name = of_this_maker("scaling")
    text = ["# Several ranks", "", f"![measured and predicted]({name}.png)", "", "`python -m benchmarks.scaling`", ""]
    text += [*measured_text(sums, model, steps), *predicted_text(predicted)]
    text += facts_list(facts)
    print("\n".join(text))
    picture = png_bytes(draw(sums, model, predicted))
    if not options.quick:
        results = {"machine": facts, "sums": sums, "latency": model[0], "bandwidth": model[1], "steps": steps}
        save_results(name, results | {"predicted": predicted}, "\n".join(text) + "\n", picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
