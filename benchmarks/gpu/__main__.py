"""All measurements on a GPU in one command: what decides most comes first.

    python -m benchmarks.gpu [--quick] [--out FOLDER] [--data FOLDER] [--seconds N] [--stages NAME ...]

Each stage runs in a process of its own, under a limit of time; what fails or takes too long is recorded with all that
it has measured before, and the others still run. Results are saved after every stage, so none is lost when a machine is
taken away, and a failure never replaces an earlier result. No process outlives the call, even if that is killed. It
needs CuPy and, for the comparison, PyTorch; nothing is downloaded. On a machine without a GPU it says so and does
nothing.

micro-batches, newstest and multi30k need the text that `python -m examples.data get` downloads, in --data; newstest
also needs multi30k or tatoeba_en_de, to learn subwords from. A training that runs out of time resumes from its
checkpoint in the next call. Results go to gpu-CARD-COMMIT.json and .md, where those of an earlier call are kept.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.common.tables import RESULTS
from benchmarks.gpu.results import Results, outcome
from benchmarks.gpu.stage_process import run_stage
from benchmarks.gpu.stages import LOG, RUNS
from examples.report import machine_facts
from minitransformer.cli.doctor import CHECKS
from minitransformer.cuda_diagnosis import cuda_trouble, driver_version

LIMITS = {
    "same loss": 60,
    "ceilings": 60,
    "base": 150,
    "ops": 60,
    "correctness": 420,
    "micro-batches": 90,
    "decoding": 90,
    "newstest": 400,
    "big": 120,
    "curves": 120,
    "base compiled": 240,
    "base compiled, tf32": 240,
    "big compiled": 240,
    "nccl": 150,
    "multi30k": 540,
}
"""Seconds that each stage may take, in the order in which they run."""
SECONDS = 540
"""For all of them, with time to start and to end within the ten minutes that shared machines give a command."""


def gpu_facts() -> dict:
    """The machine, with card, driver and CuPy."""
    import cupy

    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found = {name: CHECKS[name]()[0] for name in ("CuPy", "driver", "NCCL")}
    return machine_facts() | {"card": card} | found


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; saves only with --out")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"where results go (default: {RESULTS.name})")
    named = os.environ.get("MINITRANSFORMER_DATA")
    parser.add_argument(
        "--data", metavar="FOLDER", default=named, help="text (default: what MINITRANSFORMER_DATA names)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help=f"for all stages (default: {SECONDS})"
    )
    parser.add_argument("--stages", nargs="+", choices=LIMITS, default=list(LIMITS), help="default: all, in this order")
    parser.add_argument("--commit", help="the commit, where git cannot tell it (default: ask git)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = parse_arguments(argv)
    trouble = "there is no NVIDIA driver" if driver_version() == 0 else cuda_trouble()
    if trouble:
        print(f"benchmarks.gpu: nothing was measured: {trouble}")
        return 0
    facts = gpu_facts() | ({"commit": options.commit} if options.commit else {})
    folder = options.out or (None if options.quick else RESULTS)
    results = Results(folder, facts, options.quick)
    settings = ["--log", str(((folder or RUNS) / LOG).resolve()), *(["--quick"] if options.quick else [])]
    settings += ["--data", str(Path(options.data).resolve())] if options.data else []
    end = time.monotonic() + options.seconds
    for name in options.stages:
        limit = min(end - time.monotonic(), LIMITS[name])
        if limit < 5:
            results.keep(name, {"left out": "the time is used up"})
        else:
            cut_short = partial(_keep_part, results, name)  # what stands there if this process is killed
            results.keep(name, run_stage(name, limit, settings, cut_short))
        print(f"{name}: {outcome(results.stages[name])}", flush=True)
    print(results.markdown())
    return 0


def _keep_part(results: Results, name: str, part: dict) -> None:
    results.keep(name, part | {"failed": "cut short"})


if __name__ == "__main__":
    sys.exit(main())
