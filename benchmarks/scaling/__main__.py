"""Training on two ranks of one machine beside one process.

    python -m benchmarks.scaling [--quick]

This measures the sum of a vector over two ranks, by shared memory and by MPI, and an update of two ranks with one
thread each, by both. The update is compared with that of one process that takes the batch as a whole and shares large
products between two threads, and with that of one whose two threads take a micro-batch each.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.tables import run_benchmark
from examples.report import markdown_table
from minitransformer.config import ModelConfig
from minitransformer.planning import parameter_count

BASE_GRADIENT = parameter_count(ModelConfig.base())
LENGTHS = [1 << power for power in range(10, 25, 2)] + [BASE_GRADIENT]  # elements of float32


def mpiexec() -> str | None:
    """The command that starts MPI ranks, or None where mpi4py or an MPI is missing."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    return shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")


def on_ranks(start: str, threads: int, **task: object) -> object:
    """What `rank.py` measures: in one process ("alone"), or on two ranks of ``"launch"`` or ``"mpiexec"``."""
    words = [sys.executable, "-m", "benchmarks.scaling.rank", "2" if start == "launch" else "0", json.dumps(task)]
    if start == "mpiexec":
        words = [mpiexec(), "-n", "2", *words]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(
        words, env=environment, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def measure_sums(quick: bool) -> list[dict]:
    """Seconds of a sum over two ranks by bytes; lowest of some, the two ways in turn."""
    task = {"what": "sum", "lengths": LENGTHS[:4] if quick else LENGTHS, "repeats": 2 if quick else 10}
    runs: dict[str, list] = {"launch": [], "mpiexec": []}
    for _ in range(1 if quick else 3):
        for start, found in runs.items():
            found.append(on_ranks(start, 1, **task))
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
        "one process, one batch": on_ranks("alone", 2, **task)["alone"],
        "one process, two workers": on_ranks("alone", 1, **task | {"workers": 2})["alone"],
        "two ranks, shared memory": launched["sum"],
        "two ranks, MPI": by_mpi["sum"],
        "two ranks, no sum": launched["alone"],
    }


def markdown(sums: Sequence[dict], steps: Sequence[dict]) -> list[str]:
    of_sums = [[f"{row['bytes']:,}", *(f"{1e3 * row[start]:.3f}" for start in ("launch", "mpiexec"))] for row in sums]
    names = [name for name in steps[0] if name not in ("size", "parameters")]
    of_steps = [
        [f"{row['size']}, {row['parameters']:,} parameters"]
        + [f"{row[name]:.3f} ({row[names[0]] / row[name]:.2f})" for name in names]
        for row in steps
    ]
    return [
        "# Several ranks",
        "`python -m benchmarks.scaling`",
        "Sum of float32 over two ranks of one machine, milliseconds, lowest of some:",
        markdown_table(["bytes", "shared memory", "MPI"], of_sums),
        "Seconds per update of the same batch, lowest of some, and throughput over one process:",
        markdown_table(["size", *names], of_steps),
    ]


def measure(quick: bool) -> tuple[dict, list[str]]:
    sums, steps = measure_sums(quick), [measure_steps(name, quick) for name in ("multi30k", "base")]
    return {"sums": sums, "steps": steps}, markdown(sums, steps)


def main(argv: Sequence[str] | None = None) -> int:
    if mpiexec() is None:
        print('scaling: not measured, mpi4py or an MPI is missing: pip install -e ".[mpi]"')
        return 0
    return run_benchmark("scaling", __doc__, measure, argv, {"threads": "1 for each of 2 ranks, 2 for one process"})


if __name__ == "__main__":
    sys.exit(main())
