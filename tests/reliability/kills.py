"""Interrupt and resume trainings, and compare each with an uninterrupted one.

    python -m tests.reliability.kills --configuration process --kills 50 --seed 1

Prints a row of results/kills.md. The exit code is 1 if a guarantee is violated; the folder of that run is kept.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.reliability.interrupted_run import Configuration, InterruptedRun
from tests.reliability.jobs import GuaranteeViolation, Start
from tests.systems import find_mpiexec

UPDATES, INTERRUPTIONS_PER_RUN = 80, 12
DETERMINISTIC = {"training.deterministic_reduce": "true"}
SIGNALS = ("SIGTERM", "SIGINT", "SIGSTOP")
CONFIGURATIONS = {
    "process": Configuration(),
    "threads": Configuration((Start(threads=2),)),
    "binarized": Configuration(binarized=True),
    "local-2": Configuration((Start("launch", 2),)),
    "local-4": Configuration((Start("launch", 4),)),
    "mpi-2": Configuration((Start("mpiexec", 2),), settings=DETERMINISTIC),
    "mpi-4": Configuration((Start("mpiexec", 4),), settings=DETERMINISTIC),
    "changing": Configuration(
        (Start(), Start(threads=2), Start("launch", 2), Start("launch", 4), Start("mpiexec", 2), Start("mpiexec", 3)),
        settings={"model.dtype": "float64", "training.lr_scale": "0.2"},  # at 1, 1e-16 may grow to 1e-5 in 80 updates
        tolerance=1e-10,
    ),
    "gpu": Configuration(settings={"execution.device": "cuda"}),
    "signals": Configuration(interruptions=SIGNALS),
    "signals-local-2": Configuration((Start("launch", 2),), SIGNALS),
    "file-size-limit": Configuration(interruptions=("file-size-limit",)),
}


def train_until(name: str, wanted: int, seed: int) -> list[dict]:
    """Train until there were ``wanted`` interruptions in all; returns the record of each.

    Raises: GuaranteeViolation: a guarantee does not hold; the folder of the run is kept.
    """
    records, trainings = [], 0
    while len(records) < wanted:
        parent = Path(tempfile.mkdtemp(prefix="kills-"))
        run = InterruptedRun(CONFIGURATIONS[name], parent / "training", 1000 * seed + trainings, UPDATES)
        try:
            run.run(min(wanted - len(records), INTERRUPTIONS_PER_RUN))
        except GuaranteeViolation as error:
            raise GuaranteeViolation(f"{error} (see {parent})") from None
        shutil.rmtree(parent)
        records, trainings = [*records, *run.interruptions], trainings + 1
        print(f"{name}: {len(records)} of {wanted} interruptions, {trainings} trainings", file=sys.stderr, flush=True)
    return records


def row_of(name: str, records: list[dict]) -> str:
    counts = (Counter(each[key] for each in records).most_common() for key in ("kind", "target", "phase"))
    columns = [name, *(", ".join(f"{count} {value}" for value, count in each) for each in counts)]
    columns += [str(sum(each.get("unfinished_file", False) for each in records))]
    columns += [f"{max(each.get('seconds_to_end', 0) for each in records):.1f}"]
    return f"| {' | '.join(columns)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--configuration", choices=CONFIGURATIONS, required=True)
    parser.add_argument("--kills", type=int, default=50, help="interruptions (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    name = arguments.configuration
    if any(start.launcher == "mpiexec" for start in CONFIGURATIONS[name].starts) and not find_mpiexec():
        parser.error("there is no mpiexec: pip install mpich mpi4py")
    try:
        print(row_of(name, train_until(name, arguments.kills, arguments.seed)))
    except GuaranteeViolation as error:
        print(f"{name}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
