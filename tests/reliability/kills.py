"""Interrupt and resume trainings, and compare each with an uninterrupted one.

    python -m tests.reliability.kills --configuration process --kills 50 --seed 1

Writes ``results/kills/NAME.json`` after each training, and a table of all configurations to ``results/kills.md``. The
same command continues from these results.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.common.machine import commit, machine_facts
from benchmarks.common.tables import markdown_head, markdown_row
from minitransformer.cuda_diagnosis import cuda_trouble, driver_version
from tests.reliability.interrupted_run import Configuration, InterruptedRun
from tests.reliability.killed_job import GuaranteeViolation, Start, find_mpiexec

RESULTS = Path(__file__).with_name("results") / "kills"
UPDATES, INTERRUPTIONS_PER_RUN = 80, 12
PROCESS = Start()
LOW_LEARNING_RATE = {"training.lr_scale": "0.2"}  # at 1, rounding errors of 1e-16 may grow to 1e-5 in 80 updates
DETERMINISTIC = {"training.deterministic_reduce": "true"}
CONFIGURATIONS = {
    "process": Configuration(),
    "threads": Configuration((Start(threads=2),)),
    "binarised": Configuration(binarised=True),
    "local-2": Configuration((Start("launch", 2),)),
    "local-4": Configuration((Start("launch", 4),)),
    "mpi-2": Configuration((Start("mpiexec", 2),), settings=DETERMINISTIC),
    "mpi-4": Configuration((Start("mpiexec", 4),), settings=DETERMINISTIC),
    "changing": Configuration(
        (PROCESS, Start(threads=2), Start("launch", 2), Start("launch", 4), Start("mpiexec", 2), Start("mpiexec", 3)),
        settings={"model.dtype": "float64"} | LOW_LEARNING_RATE,
        tolerance=1e-10,
    ),
    "gpu": Configuration(settings={"execution.device": "cuda"}),
    "signals": Configuration(interruptions=("SIGTERM", "SIGINT", "SIGSTOP")),
    "signals-local-2": Configuration((Start("launch", 2),), ("SIGTERM", "SIGINT", "SIGSTOP")),
    "file-size-limit": Configuration(interruptions=("file-size-limit",)),
    "disk-full": Configuration(interruptions=("disk-full",), own_disk=True),
}


def train_until(name: str, wanted: int, seed: int, path: Path) -> dict:
    """Trainings of configuration ``name`` with ``wanted`` interruptions in all, including those that ``path`` holds."""
    results = json.loads(path.read_text()) if path.exists() else {}
    if results.get("seed") != seed:
        results = {"configuration": name, "seed": seed, "machine": machine_facts(), "runs": []}
    while (missing := wanted - n_interruptions(results)) > 0:
        most = min(missing, INTERRUPTIONS_PER_RUN)
        results["runs"].append(train_once(name, most, 1000 * seed + len(results["runs"])))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one_line_per_interruption(results))
        run = results["runs"][-1]
        count, outcome = len(run["interruptions"]), run["violation"] or "equal to the uninterrupted training"
        print(f"{name}: {count} interruptions in {run['seconds']} s, {outcome}", flush=True)
        if not count:
            break
    return results


def one_line_per_interruption(results: dict) -> str:
    """JSON in which each interruption is one line, so that changes of the file stay readable."""
    return re.sub(r"\n {5,}|\n {4}(?=\})", " ", json.dumps(results, indent=1)) + "\n"


def train_once(name: str, interruptions: int, seed: int) -> dict:
    """One training; its folder is kept if a guarantee is violated."""
    began, parent, violation = time.monotonic(), Path(tempfile.mkdtemp(prefix="kills-")), ""
    run = InterruptedRun(CONFIGURATIONS[name], parent / "training", seed, UPDATES)
    try:
        run.run(interruptions)
        shutil.rmtree(parent)
    except GuaranteeViolation as error:
        violation = f"{error} (see {parent})"
    seconds = round(time.monotonic() - began, 1)
    facts = {"seed": seed, "violation": violation, "seconds": seconds, "commit": commit()}
    return facts | {"interruptions": run.interruptions}


def n_interruptions(results: dict) -> int:
    return sum(len(run["interruptions"]) for run in results["runs"])


HEAD = (
    "configuration;interruptions;trainings equal to the uninterrupted one;process;phase of rank 0;"
    "unfinished files left;seconds until the job ended, at most"
)


def table_of(folder: Path) -> str:
    """A row for each configuration that has results."""
    rows = []
    for path in sorted(folder.glob("*.json"), key=lambda path: list(CONFIGURATIONS).index(path.stem)):
        results = json.loads(path.read_text())
        interruptions = [each for run in results["runs"] for each in run["interruptions"]]
        equal, count = sum(not run["violation"] for run in results["runs"]), len(results["runs"])
        rows.append(
            [
                path.stem,
                counted(each["kind"] for each in interruptions),
                f"{equal} of {count}",
                counted(each["target"] for each in interruptions if "%" not in each["target"]),
                counted(each["phase"] for each in interruptions),
                str(sum(each.get("unfinished_file", False) for each in interruptions)),
                f"{max((each.get('seconds_to_end', 0) for each in interruptions), default=0):.1f}",
            ]
        )
    return "\n".join([*markdown_head(HEAD.split(";")), *map(markdown_row, rows)]) + "\n"


def counted(values: Iterable[str]) -> str:
    return ", ".join(f"{count} {value}" for value, count in Counter(values).most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--configuration", choices=CONFIGURATIONS, required=True)
    parser.add_argument("--kills", type=int, default=50, help="interruptions, including those of earlier calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    if reason := missing_for(arguments.configuration):
        print(f"{arguments.configuration}: skipped, {reason}")
        return 0
    path = arguments.out / f"{arguments.configuration}.json"
    results = train_until(arguments.configuration, arguments.kills, arguments.seed, path)
    arguments.out.with_suffix(".md").write_text(table_of(arguments.out))
    return int(any(run["violation"] for run in results["runs"]))


def missing_for(name: str) -> str:
    """Why this configuration cannot be run here, or ""."""
    configuration = CONFIGURATIONS[name]
    if configuration.settings.get("execution.device") == "cuda" and (driver_version() == 0 or cuda_trouble()):
        return "there is no GPU"
    if any(start.launcher == "mpiexec" for start in configuration.starts) and not find_mpiexec():
        return "there is no mpiexec: pip install mpich mpi4py"
    if configuration.own_disk and (os.name != "posix" or os.geteuid() != 0):
        return "only root can mount a small disk"
    return ""


if __name__ == "__main__":
    sys.exit(main())
