"""How long a training step takes: ours, PyTorch, and our own matrix products alone, in turn in one process.

    python -m benchmarks.training_step [--quick]

Ours takes the batch as two micro-batches, side by side in two threads, as the recipes do, and once more as one batch,
whose large products all threads share. PyTorch runs eagerly and, where there is a C++ compiler, compiled with
torch.compile. It gets as many threads as these products (limit both with OPENBLAS_NUM_THREADS), and our trainer's
memory settings apply to it too, since they apply to the whole process. Other work on the machine at the same time
distorts the figures.
"""

import os
import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.common.matrix_products import record_step, replay
from benchmarks.common.race import race
from benchmarks.common.tables import run_benchmark
from benchmarks.common.work import REAL, SIZES, Size, Work, random_work, real_work, shape_of
from benchmarks.peers.torch_model import TorchTransformer
from benchmarks.peers.torch_step import torch_adam, torch_train_step
from examples.report import markdown_table, spread, with_extremes
from minitransformer.blas import product_threads
from minitransformer.config import TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import Batch
from minitransformer.training import GradientAccumulator, train_step
from minitransformer.workers import SERIAL, Workers

ABOUT = """Milliseconds an update, median (lowest to highest); ratios are medians over rounds, for the faster of our two
ways: two micro-batches side by side in two threads, or one batch, whose large products all threads share. The last
line is made of real sentences of Multi30k, two micro-batches of different lengths an update, with padding, for all."""
WARM_UP = 2  # rounds that do not count
OURS = ("side by side", "one batch")
OTHERS = ("pytorch", "products", "compiled")
COMPILERS = ("c++", "g++", "clang++")


def contestants(size: Size, work: Work, compiled: bool) -> dict[str, Callable[[], object]]:
    """What is timed, by name; each call makes all updates of ``work``, or the products of them.

    compiled: PyTorch compiled too, which takes a minute or two before the first round
    """
    config = TrainingConfig()
    ours = Transformer(size.model, seed=1)
    adam = Adam(ours.parameters, config.beta1, config.beta2, config.eps)
    workers = Workers.for_shares(2)

    def step(updates: list[list[Batch]], workers: Workers) -> None:
        accumulator = GradientAccumulator(ours.parameters, workers=workers)
        for batches in updates:
            train_step(ours, adam, batches, update=adam.step_count + 1, config=config, accumulator=accumulator)

    def torch_steps(compiled: bool = False) -> Callable[[], None]:
        replica = TorchTransformer.from_ours(ours)
        if compiled:
            replica.loss = torch.compile(replica.loss)
        replica_adam = torch_adam(replica, config)

        def steps() -> None:
            for batches in work.in_turn:
                torch_train_step(replica, replica_adam, batches, update=1, config=config)

        return steps

    products = [product for batches in work.in_turn for batch in batches for product in record_step(ours, batch)]
    runners = {
        "side by side": lambda: step(work.side_by_side, workers),
        "one batch": lambda: step(work.in_turn, SERIAL),
        "pytorch": torch_steps(),
        "products": replay(products),
    }
    return runners | ({"compiled": torch_steps(compiled=True)} if compiled else {})


def summary(size: Size, work: Work, compiled: bool) -> dict:
    """Medians and extremes, seconds an update; ratios are medians of each round's ratios, for the faster of our two
    ways.

    ``met``: at most 1.0 times PyTorch, or at most 1.15 times our own matrix products where that is longer.
    """
    rounds = race(contestants(size, work, compiled), size.rounds, WARM_UP, size.name)
    seconds = {name: [each / len(work.in_turn) for each in values] for name, values in rounds.items()}
    result = {"size": size.name, "shape": shape_of(size), "rounds": len(seconds["pytorch"])}
    for name, values in seconds.items():
        result[name] = spread(values)
    result["faster"] = min(OURS, key=lambda name: result[name]["median"])
    for other in sorted(set(seconds) - set(OURS)):
        ratios = [ours / theirs for ours, theirs in zip(seconds[result["faster"]], seconds[other], strict=True)]
        result[f"ours / {other}"] = statistics.median(ratios)
    result["met"] = result["ours / pytorch"] <= 1.0 or result["ours / products"] <= 1.15
    return result


def markdown(results: Sequence[dict]) -> list[str]:
    head = [
        "size",
        "ours, side by side",
        "ours, one batch",
        "PyTorch eager",
        "our products alone",
        "torch.compile",
        "ours / PyTorch",
        "ours / products",
        "ours / compiled",
        "rounds",
        "met",
    ]
    rows = []
    for result in results:
        times = [_milliseconds(result.get(name)) for name in (*OURS, *OTHERS)]
        ratios = [f"{result[f'ours / {name}']:.2f}" if name in result else "" for name in OTHERS]
        rows.append([result["shape"], *times, *ratios, str(result["rounds"]), "yes" if result["met"] else "no"])
    met = "Met: at most 1.0 times PyTorch, or 1.15 times our own matrix products where that is longer."
    return ["# Time of a training step", ABOUT, "`python -m benchmarks.training_step`", markdown_table(head, rows), met]


def _milliseconds(times: dict[str, float] | None) -> str:
    if times is None:
        return "not measured"
    found = {name: 1000 * each for name, each in times.items()}
    return with_extremes(found, ".0f" if found["median"] >= 100 else ".1f")


def real_results(compiled: bool) -> list[dict]:
    """The summary of the real batches, or nothing where there is no data."""
    folder = os.environ.get("MINITRANSFORMER_DATA")
    if not folder:
        print("training_step: no real batches, MINITRANSFORMER_DATA is not set", file=sys.stderr)
        return []
    work = real_work(Path(folder) / "multi30k", REAL)
    result = summary(REAL, work, compiled)
    shape = result["shape"].rpartition(" · ")[0]
    return [result | {"shape": f"{shape} · Multi30k"}]


def measure(quick: bool) -> tuple[dict, list[str]]:
    torch.set_num_threads(product_threads())
    compiled, results = not quick and any(map(shutil.which, COMPILERS)), []
    for size in SIZES:
        if quick:
            size = replace(size, sentences=size.sentences // 16, rounds=2, updates=1)
        results.append(summary(size, random_work(size), compiled))
    results += [] if quick else real_results(compiled)
    return {"results": results}, markdown(results)


def main(argv: Sequence[str] | None = None) -> int:
    return run_benchmark("training_step", __doc__, measure, argv)


if __name__ == "__main__":
    sys.exit(main())
