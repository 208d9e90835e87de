"""A training step of ours and one of PyTorch's in one process: whether the threads of either slow the other down.

    python -m benchmarks.one_process [--quick]

Ours multiplies by NumPy's BLAS, or by each other library that is installed (docs/cpu.md); PyTorch has a library and
threads of its own. The threads of each wait actively for a while after a product. Each step is timed alone in a
process, ours again where PyTorch is imported and does nothing, and both in turn, at once after one another and after a
pause. Other work on the machine at the same time distorts the figures.

Results go to benchmarks/results/one_process.MAKER.json and .md, MAKER that of the processor; --quick writes nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import work
from benchmarks.common.machine import machine_facts, of_this_maker
from benchmarks.common.tables import facts_list, markdown_head, markdown_row, save_results
from benchmarks.step_memory import our_step, torch_step
from minitransformer.kernels.numpy.libraries import installed
from minitransformer.kernels.numpy.product_table import VARIABLE

OURS, PYTORCH = "one batch", "pytorch"
PAUSE = 0.5  # seconds, after which no thread of another library waits actively
WARM_UP = 2
CASES = {
    "ours alone": ([OURS], False, PAUSE),
    "ours, PyTorch imported": ([OURS], True, PAUSE),
    "PyTorch alone": ([PYTORCH], True, PAUSE),
    "in turn, with a pause": ([OURS, PYTORCH], True, PAUSE),
    "in turn, at once": ([OURS, PYTORCH], True, 0.0),
}
"""Whose steps are timed in one process, whether PyTorch is imported, and the pause before each turn."""


def measure(case: str, size_name: str, rounds: int) -> dict[str, float]:
    """Median seconds of a step in this process, by whose it is."""
    who, imports_torch, pause = CASES[case]
    if imports_torch:
        import torch  # noqa: F401
    size = next(size for size in work.SIZES if size.name == size_name)
    batch = work.random_batch(size)
    steps = {name: (torch_step if name == PYTORCH else our_step)(size.model, batch, name)[0] for name in who}
    seconds: dict[str, list[float]] = {name: [] for name in who}
    for _ in range(WARM_UP + rounds):
        for name, step in steps.items():
            time.sleep(pause)
            began = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each[WARM_UP:]) for name, each in seconds.items()}


def measured_apart(library: str, case: str, size: str, rounds: int) -> dict[str, float]:
    """``measure`` in a fresh process, whose products are those of ``library``."""
    command = [sys.executable, "-m", "benchmarks.one_process", "--measure", case, size, str(rounds)]
    environment, folder = os.environ | {VARIABLE: library}, Path(__file__).parent.parent
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
    return json.loads(run.stdout)


def markdown(facts: dict, results: Sequence[dict]) -> str:
    lines = ["# A training step of ours and one of PyTorch's in one process", ""]
    lines += ["Milliseconds a step, median. Ours: as one batch, with all threads of the library that multiplies.", ""]
    lines += ["`python -m benchmarks.one_process`", ""]
    columns = [(case, name) for case, (who, *_) in CASES.items() for name in who]
    titles = [case if case.startswith(("ours", "PyTorch")) else f"{case}: {_whose(name)}" for case, name in columns]
    lines += markdown_head(["size", "our library", *titles])
    for result in results:
        cells = [f"{1000 * result['seconds'][case][name]:.1f}" for case, name in columns]
        lines.append(markdown_row([result["size"], result["library"], *cells]))
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def _whose(name: str) -> str:
    return "PyTorch" if name == PYTORCH else "ours"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_process", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small step by NumPy's BLAS, and no results are written")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        case, size, rounds = options.measure
        print(json.dumps(measure(case, size, int(rounds))))
        return 0
    facts, results = machine_facts(), []
    size, rounds, others = ("copy", 1, []) if options.quick else ("multi30k", 7, installed())
    for library in ("numpy", *others):
        seconds = {case: measured_apart(library, case, size, rounds) for case in CASES}
        results.append({"size": size, "library": library, "rounds": rounds, "seconds": seconds})
    text = markdown(facts, results)
    print(text)
    if not options.quick:
        save_results(of_this_maker("one_process"), {"machine": facts, "results": results}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
