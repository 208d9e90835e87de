"""Peak memory of training steps, ours beside PyTorch's, each in a process of its own.

    python -m benchmarks.step_memory [--quick]

The base model with V 37,000 (Adam included), three steps of 64 x 32 tokens; ours as two micro-batches side by side (a
second vector of gradients included) and as one batch. Two figures: the peak of the process, and how much of it was
added after the imports. Neither depends on the processor: results go to benchmarks/results/step_memory.json and .md
whatever its maker; --quick writes nothing.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.common import work
from benchmarks.common.tables import save_results
from examples.report import facts_list, machine_facts, markdown_table, page
from minitransformer.allocator import keep_freed_memory
from minitransformer.blas import product_threads
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import Batch
from minitransformer.training import GradientAccumulator, train_step
from minitransformer.workers import SERIAL, Workers

WAYS = ("side by side", "one batch", "pytorch")
MIB = 1 << 20
STEPS = 3
SIZES = {"base": (64, "base"), "quick": (4, "copy")}  # sentences, and whose model of benchmarks/common/work.py


def peak_bytes() -> int:
    """The most memory that this process has held so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux, whose ru_maxrss begins with the peak of the process that started this one
        return 1024 * next(int(line.split()[1]) for line in status.read_text().split("\n") if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure(way: str, size_name: str) -> dict[str, int]:
    """Runs the steps in this process, which imports only what it needs: ``peak`` and ``imports``, bytes."""
    sentences, name = SIZES[size_name]
    size = next(each for each in work.SIZES if each.name == name)
    batch = work.random_batch(replace(size, sentences=sentences))
    step, imports = torch_step(size.model, batch) if way == "pytorch" else our_step(size.model, batch, way)
    for _ in range(STEPS):
        step()
    return {"peak": peak_bytes(), "imports": imports}


def our_step(model_config: ModelConfig, batch: Batch, way: str) -> tuple[Callable[[], object], int]:
    imports = peak_bytes()
    keep_freed_memory()
    model = Transformer(model_config, seed=1)
    batches, workers = ([batch], SERIAL) if way == "one batch" else (work.halves(batch), Workers.for_shares(2))
    adam, config = Adam(model.parameters), TrainingConfig()
    accumulator = GradientAccumulator(model.parameters, workers=workers)

    def step() -> None:
        train_step(model, adam, batches, update=adam.step_count + 1, config=config, accumulator=accumulator)

    return step, imports


def torch_step(model_config: ModelConfig, batch: Batch) -> tuple[Callable[[], object], int]:
    import torch

    from benchmarks.peers.torch_model import TorchTransformer
    from benchmarks.peers.torch_step import torch_adam, torch_train_step

    imports = peak_bytes()
    torch.set_num_threads(product_threads())
    model, config = TorchTransformer(model_config), TrainingConfig()
    adam = torch_adam(model, config)
    return lambda: torch_train_step(model, adam, [batch], update=1, config=config), imports


def measured_apart(way: str, size_name: str) -> dict[str, int]:
    """``measure`` in a fresh process, since the peak of a process never falls."""
    command = [sys.executable, "-m", "benchmarks.step_memory", "--measure", way, "--size", size_name]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    return json.loads(run.stdout)


def markdown(facts: dict, results: dict[str, dict[str, int]]) -> str:
    head = [
        "",
        "peak of the process, MiB",
        "of it after the imports, MiB",
        "peak / PyTorch's",
        "after imports / PyTorch's",
    ]
    rows, theirs = [], results["pytorch"]
    for way, each in results.items():
        grown, their_grown = each["peak"] - each["imports"], theirs["peak"] - theirs["imports"]
        # A small model may fit into what the imports had and let go of.
        ratios = [f"{each['peak'] / theirs['peak']:.2f}", f"{grown / their_grown:.2f}" if their_grown else ""]
        rows.append([way, f"{each['peak'] / MIB:,.0f}", f"{grown / MIB:,.0f}", *ratios])
    about, command = "The base model, V 37,000, 64 x 32 tokens, Adam included.", "`python -m benchmarks.step_memory`"
    return page("# Peak memory of a training step", about, command, markdown_table(head, rows), facts_list(facts))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_memory", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small model, and no results are written")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=SIZES, default="base", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        print(json.dumps(measure(options.measure, options.size)))
        return 0
    results = {way: measured_apart(way, "quick" if options.quick else "base") for way in WAYS}
    facts = machine_facts()
    text = markdown(facts, results)
    print(text)
    if not options.quick:
        table = {"machine": facts, "bytes": results}
        save_results("step_memory", table, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
