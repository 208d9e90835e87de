"""What became of each mutant, in results/: a line of JSON for each mutated line, and a table."""

import json
import math
import os
import platform
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.reliability.mutation.mutants import FOLDERS, Mutant

FOLDER = Path(__file__).parent.parent / "results"
RESULTS, EQUIVALENT, TABLE = (FOLDER / name for name in ("mutation.jsonl", "mutation_equivalent.json", "mutation.md"))


class Result(NamedTuple):
    """status: caught, timeout or survived   tests: how many were chosen   seconds: CPU   test: that failed"""

    status: str
    tests: int
    seconds: float
    test: str


def read_results() -> dict[Mutant, Result]:
    """The results of all mutants that have one and whose line the source still has."""
    rows = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else ())
    return {mutant: Result(*result) for row in rows for mutant, result in _mutants(row) if is_current(mutant)}


def write_results(results: dict[Mutant, Result]) -> None:
    lines = defaultdict(dict)
    for mutant in sorted(results, key=lambda each: (each.file, each.function, each.old, each.nth, each.new)):
        lines[mutant.file, mutant.function, mutant.old, mutant.nth][mutant.new] = results[mutant]
    names = ("file", "function", "old", "nth")
    rows = [dict(zip(names, key, strict=True)) | {"new": new} for key, new in lines.items()]
    RESULTS.parent.mkdir(exist_ok=True)
    partial = RESULTS.with_suffix(".part")
    partial.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    os.replace(partial, RESULTS)


def read_equivalent() -> dict[Mutant, str]:
    """The mutants that change nothing that the package promises, each with the reason."""
    rows = json.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else []
    return {mutant: reason for row in rows for mutant, reason in _mutants(row)}


def _mutants(row: dict) -> list[tuple[Mutant, Any]]:
    file, function, old, nth = row["file"], row["function"], row["old"], row["nth"]
    return [(Mutant(file, function, old, new, nth), each) for new, each in row["new"].items()]


def is_current(mutant: Mutant) -> bool:
    try:
        return bool(mutant.lines(_source(mutant.file)))
    except (LookupError, FileNotFoundError):
        return False


@cache
def _source(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def wilson_interval(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % confidence interval of a share of which ``count`` in ``total`` is a random sample      [Wilson 1927]"""
    share, spread = count / total, z * z / total
    middle, half = share + spread / 2, z * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return (middle - half) / (1 + spread), (middle + half) / (1 + spread)


def table(results: dict[Mutant, Result], everything: list[Mutant], commit: str) -> str:
    """The figures of each folder, as Markdown."""
    equivalent = read_equivalent()
    counts, seconds = defaultdict(Counter), 0.0
    for mutant in everything:
        status, _, used, _ = results.get(mutant, Result("not tested", 0, 0.0, ""))
        seconds += used
        status = "equivalent" if status == "survived" and mutant in equivalent else status
        for name in (mutant.file.split("/")[1], "all"):
            counts[name][status] += 1
    columns = ("caught", "timeout", "equivalent", "survived", "not tested")
    rows = [
        "| folder | mutants | " + " | ".join(columns) + " | detected |",
        "|---" * (len(columns) + 3) + "|",
    ]
    for name in (*FOLDERS, "all"):
        count = counts[name]
        detected = count["caught"] + count["timeout"]
        total = detected + count["survived"]
        share = f"{detected / max(total, 1):.1%}"
        if count["not tested"] and total:
            share += " ({:.1%} to {:.1%})".format(*wilson_interval(detected, total))
        numbers = (count.total(), *(count[each] for each in columns))
        rows.append(f"| {name} | " + " | ".join(map(str, numbers)) + f" | {share} |")
    about = (
        f"`python -m tests.reliability.mutation run`, commit {commit}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, {platform.machine()}; the tests took {seconds / 60:.0f} minutes of CPU. Detected is "
        "the share of caught and timeout among the tested mutants that are not equivalent, with its 95 % interval "
        "where some are not tested: that of a random sample, as they are in a first run, but not after new code."
    )
    return "\n".join([about, "", *rows]) + "\n"
