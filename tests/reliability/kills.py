"""Trainings that are killed again and again, and must end as if they had not been.

    python -m tests.reliability.kills --configuration process --kills 50 --seed 1

Results go to ``results/kills/NAME.json`` after each training, and a table of all of them to ``results/kills.md``. The
same command continues from there.
"""

import argparse
import json
import os
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
from tests.reliability.killed_job import BrokenPromise, Start, find_mpiexec
from tests.reliability.struck_run import Configuration, StruckRun

RESULTS = Path(__file__).with_name("results") / "kills"
UPDATES, BLOWS_PER_RUN = 80, 12
PROCESS = Start()
CALM = {"model.dtype": "float64", "training.lr_scale": "0.2"}  # at 1 rounding may grow to 1e-5 in 80 updates
SUM = {"training.deterministic_reduce": "true"}
CONFIGURATIONS = {
    "process": Configuration(),
    "threads": Configuration((Start(threads=2),)),
    "binarised": Configuration(binarised=True),
    "tcp-2": Configuration((Start("launch", 2),)),
    "tcp-4": Configuration((Start("launch", 4),)),
    "mpi-2": Configuration((Start("mpiexec", 2),), settings=SUM),
    "mpi-4": Configuration((Start("mpiexec", 4),), settings=SUM),
    "changing": Configuration(
        (PROCESS, Start(threads=2), Start("launch", 2), Start("launch", 4), Start("mpiexec", 2), Start("mpiexec", 3)),
        settings=CALM,
        tolerance=1e-10,
    ),
    "gpu": Configuration(settings={"execution.device": "cuda"}),
    "signals": Configuration(blows=("SIGTERM", "SIGINT", "SIGSTOP")),
    "signals-tcp-2": Configuration((Start("launch", 2),), ("SIGTERM", "SIGINT", "SIGSTOP")),
    "limit": Configuration(blows=("limit",)),
    "fill": Configuration(blows=("fill",), own_disk=True),
}


def strike_until(name: str, wanted: int, seed: int, path: Path) -> dict:
    """Trainings of configuration ``name`` until ``wanted`` blows have been struck; ``path`` holds those so far."""
    results = json.loads(path.read_text()) if path.exists() else {}
    if results.get("seed") != seed:
        results = {"configuration": name, "seed": seed, "machine": machine_facts(), "runs": []}
    while (missing := wanted - n_blows(results)) > 0:
        results["runs"].append(strike_once(name, min(missing, BLOWS_PER_RUN), 1000 * seed + len(results["runs"])))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
        run = results["runs"][-1]
        print(f"{name}: {len(run['blows'])} blows in {run['seconds']} s {run['broken'] or 'equal'}", flush=True)
        if not run["blows"]:
            break
    return results


def strike_once(name: str, blows: int, seed: int) -> dict:
    """One training; its folder is kept if a promise was broken."""
    began, above, broken = time.monotonic(), Path(tempfile.mkdtemp(prefix="kills-")), ""
    run = StruckRun(CONFIGURATIONS[name], above / "training", seed, UPDATES)
    try:
        run.go(blows)
        shutil.rmtree(above)
    except BrokenPromise as error:
        broken = f"{error} (see {above})"
    seconds = round(time.monotonic() - began, 1)
    return {"seed": seed, "broken": broken, "seconds": seconds, "commit": commit(), "blows": run.blows}


def n_blows(results: dict) -> int:
    return sum(len(run["blows"]) for run in results["runs"])


HEAD = "configuration;interruptions;trainings, equal;struck;rank 0 was in;unfinished file left;seconds to end, at most"


def table_of(folder: Path) -> str:
    """A row for each configuration that has results."""
    rows = []
    for path in sorted(folder.glob("*.json"), key=lambda path: list(CONFIGURATIONS).index(path.stem)):
        results = json.loads(path.read_text())
        blows = [blow for run in results["runs"] for blow in run["blows"]]
        whole, broken = len(results["runs"]), sum(bool(run["broken"]) for run in results["runs"])
        rows.append(
            [
                path.stem,
                counted(blow["blow"] for blow in blows),
                f"{whole}, all" if not broken else f"{whole}, **{broken} not**",
                "" if "%" in blows[0]["target"] else counted(blow["target"] for blow in blows),
                counted(blow["phase"] for blow in blows if "phase" in blow),
                str(sum(blow.get("unfinished_file", False) for blow in blows)),
                f"{max(blow.get('seconds_to_end', 0) for blow in blows):.1f}",
            ]
        )
    return "\n".join([*markdown_head(HEAD.split(";")), *map(markdown_row, rows)]) + "\n"


def counted(values: Iterable[str]) -> str:
    return ", ".join(f"{count} {value}" for value, count in Counter(values).most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--configuration", choices=CONFIGURATIONS, required=True)
    parser.add_argument("--kills", type=int, default=50, help="blows in all, with those of earlier calls (50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    if reason := missing_for(arguments.configuration):
        print(f"{arguments.configuration}: skipped, {reason}")
        return 0
    path = arguments.out / f"{arguments.configuration}.json"
    results = strike_until(arguments.configuration, arguments.kills, arguments.seed, path)
    arguments.out.with_suffix(".md").write_text(table_of(arguments.out))
    return int(any(run["broken"] for run in results["runs"]))


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
