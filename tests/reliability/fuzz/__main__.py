"""Feed damaged and hostile files to the readers: see tests/reliability/README.md.

    python -m tests.reliability.fuzz --inputs N --seed S [--reader NAME] [--out FILE]

Every input is determined by (reader, seed, number), so a run that was stopped continues from its results, and
``--reader NAME --seed S --only NUMBER`` repeats one input. The exit code is 1 if there are faults.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from .readers import READERS
from .worker import Limits, outcomes, rng_of

CHUNK = 2000
"""Number of inputs of one process; the results are written after each."""
TOP = Path(__file__).parents[3]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000, help="inputs for each reader (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", action="append", choices=list(READERS), help="may be repeated (default: all)")
    parser.add_argument("--out", type=Path, help="JSON file of results, which is continued; also writes a table")
    parser.add_argument("--keep", type=Path, default=Path("runs/fuzz"), help="folder for the first input of each fault")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat this input of --reader, with a traceback")
    options = parser.parse_args()
    with scratch() as folder:
        if options.only is not None:
            return repeat(options.reader[0], options.seed, options.only, folder)
        results = _read_results(options.out, options.seed)
        for name in options.reader or READERS:
            record = results["readers"].setdefault(name, new_record())
            reader = READERS[name](_new(folder / "valid"))
            while record["inputs"] < options.inputs:
                last = min(options.inputs, record["inputs"] + CHUNK)
                add_inputs(record, reader, options.seed, last, folder / "input", options.keep)
                _write_results(options.out, results)
            print(line_of(name, record), flush=True)
    return int(any(record["faults"] for record in results["readers"].values()))


@contextmanager
def scratch():
    """A temporary folder for inputs, in memory if possible."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def _new(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def new_record() -> dict:
    return {"inputs": 0, "accepted": 0, "refused": 0, "slowest": 0.0, "memory": 0, "seconds": 0.0, "faults": {}}


def add_inputs(record: dict, reader, seed: int, last: int, folder: Path, keep: Path | None = None) -> None:
    """Read the inputs from number ``record["inputs"]`` to ``last``, and count their outcomes."""
    for outcome in outcomes(reader, seed, range(record["inputs"], last), folder):
        record["inputs"] += 1
        record["accepted"] += outcome.accepted and not outcome.fault
        record["refused"] += not outcome.accepted and not outcome.fault
        record["slowest"] = max(record["slowest"], outcome.cpu_seconds)
        record["memory"] = max(record["memory"], outcome.memory)
        record["seconds"] += outcome.cpu_seconds
        if outcome.fault:
            first = {"count": 0, "first": outcome.index, "message": outcome.message}
            fault = record["faults"].setdefault(outcome.fault, first)
            fault["count"] += 1
            if fault["count"] == 1 and keep is not None:
                shutil.copytree(
                    folder, keep / f"{reader.name}_{seed}_{outcome.index}", symlinks=True, dirs_exist_ok=True
                )


def repeat(name: str, seed: int, number: int, folder: Path) -> int:
    """Read one input in this process, without limits; a debugger may be attached."""
    reader, place = READERS[name](_new(folder / "valid")), _new(folder / "input")
    reader.write(rng_of(name, seed, number), place)
    for path in sorted(place.rglob("*")):
        print(path, path.stat().st_size if path.is_file() else "", file=sys.stderr)
    reader.read(place)
    print("accepted")
    return 0


def line_of(name: str, record: dict) -> str:
    faults = sum(fault["count"] for fault in record["faults"].values())
    counts = f"{record['inputs']:,} | {record['accepted']:,} | {record['refused']:,} | {faults:,}"
    return f"| {name} | {counts} | {record['slowest']:.2f} | {record['memory'] >> 20} | {record['seconds']:.0f} |"


def _read_results(path: Path | None, seed: int) -> dict:
    if path is not None and path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
        if results["seed"] != seed:
            sys.exit(f"fuzz: --seed must be {results['seed']} to continue {path}, got {seed}")
        return results
    return {"seed": seed, "limits": asdict(Limits()), "readers": {}}


def _write_results(path: Path | None, results: dict) -> None:
    if path is None:
        return
    command = "python -m tests.reliability.fuzz --inputs N --seed " + str(results["seed"])
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=TOP, capture_output=True, text=True, check=False
    )
    results["machine"] = (
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    results["commits"] = sorted({*results.get("commits", []), commit.stdout.strip()})
    results["command"], results["ended"] = command, time.strftime("%Y-%m-%d %H:%M")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    records = results["readers"]
    total = {
        key: sum(record[key] for record in records.values()) for key in ("inputs", "accepted", "refused", "seconds")
    }
    total |= {key: max(record[key] for record in records.values()) for key in ("slowest", "memory")}
    total["faults"] = {
        f"{name}: {each}": fault for name, record in records.items() for each, fault in record["faults"].items()
    }
    head = "| reader | inputs | accepted | refused | faults | slowest input (s of CPU) | peak memory (MB) | CPU (s) |"
    lines = [head, "|---" + "|--:" * 7 + "|", *(line_of(*each) for each in records.items()), line_of("all", total)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
