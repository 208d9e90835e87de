"""Mutation testing: does a test fail for every operator, constant and index that is replaced by another?

    python -m tests.reliability.mutation coverage          which tests execute which lines, into runs/mutation/
    python -m tests.reliability.mutation run [FOLDER ...]  test the mutants that have no result yet
    python -m tests.reliability.mutation run --survivors   test again those that survived
    python -m tests.reliability.mutation report            write the table; list the survivors
    python -m tests.reliability.mutation check             some mutants, each by the test that has caught it

Install the extra dev for it. A mutant's tests are those that execute the mutated statement, the fastest first.
"""

import argparse
import importlib
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
from tqdm import tqdm

from tests.reliability.mutation.mutants import FOLDERS, Mutant, all_mutants
from tests.reliability.mutation.results import (
    TABLE,
    Result,
    read_equivalent,
    read_results,
    table,
    write_results,
)
from tests.reliability.mutation.selection import Selection, body_lines, measure
from tests.reliability.mutation.trial import OPTIONS, Trials, in_parallel

SAVE_EVERY = 30  # seconds
TESTS = ["tests", "-m", "not (mpi or gpu or cuda or data)"]


def run(folders: tuple[str, ...], survivors: bool, budget: float, workers: int) -> int:
    """Test mutants and write their results as they come."""
    results, selection = read_results(), Selection.read()
    if survivors:
        equivalent = read_equivalent()
        todo = [mutant for mutant, each in results.items() if each.status == "survived" and mutant not in equivalent]
    else:
        todo = [mutant for mutant in all_mutants(folders) if mutant not in results]
    for name in ("matplotlib.pyplot", "torch"):  # once, not in each child
        importlib.import_module(name)

    def work(trials: Trials) -> None:
        def result_of(mutant: Mutant) -> Result:
            lines = mutant.lines(Path(mutant.file).read_text(encoding="utf-8"))
            tests = selection.tests_of(mutant.file, lines, budget)
            status, test, seconds = "survived", "", 0.0
            if tests:
                status, test, seconds = trials.of(mutant, tests, selection.runs_on_import(mutant.file, lines))
            return Result(status, len(tests), round(seconds, 2), test)

        if missing := selection.seconds.keys() - trials.items.keys():
            pytest.exit(f"mutation run: the tests of coverage must exist, got {min(missing)}; run coverage again", 2)
        if not selection.verified:
            selection.exclude(trials.failing(list(selection.seconds), 600))
        saved, done = time.monotonic(), in_parallel(result_of, todo, workers)
        try:
            for mutant, result in tqdm(done, total=len(todo), unit="mutant", file=sys.__stderr__):
                results[mutant] = result
                if time.monotonic() > saved + SAVE_EVERY:
                    write_results(results)
                    saved = time.monotonic()
        finally:
            write_results(results)

    return pytest.main([*OPTIONS, *selection.files()], plugins=[Trials(work)])


def check(count: int) -> int:
    """How many of ``count`` mutants survive the tests that are known to catch them; or pytest's exit code."""

    def is_quick(mutant: Mutant, test: str) -> bool:
        source = Path(mutant.file).read_text(encoding="utf-8")
        in_function = bool(body_lines(source, mutant.lines(source).start + 1))
        return in_function and Path(test.split("::")[0]).exists() and "test_parity" not in test  # which needs PyTorch

    results = sorted(read_results().items(), key=lambda each: each[0].rank)
    caught = ((mutant, each.test) for mutant, each in results if "::" in each.test)
    chosen = list(islice((each for each in caught if is_quick(*each)), 2 * count))  # some tests have a new name
    survived = []

    def work(trials: Trials) -> None:
        known = [(mutant, test) for mutant, test in chosen if test in trials.items][:count]
        if len(known) < count:
            pytest.exit("mutation check: the tests of the results must exist; run coverage and run again", 2)
        for mutant, test in known:
            if trials.of(mutant, [test], fresh=False)[0] == "survived":
                survived.append(mutant)
                print(f"survived {test}: {mutant}", file=sys.__stderr__)

    code = pytest.main([*OPTIONS, *sorted({test.split("::")[0] for _, test in chosen})], plugins=[Trials(work)])
    return len(survived) or code


def report() -> int:
    results, equivalent = read_results(), read_equivalent()
    write_results(results)
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    text = table(results, all_mutants(), commit.strip())
    TABLE.write_text(text, encoding="utf-8")
    print(text)
    for mutant, result in results.items():
        if result.status == "survived" and mutant not in equivalent:
            print(f"{mutant.file} {mutant.function} ({result.tests} tests)\n    {mutant.old}\n    {mutant.new}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.mutation", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("coverage").add_argument("pytest", nargs="*", default=TESTS, help="arguments of pytest")
    options = commands.add_parser("run")
    options.add_argument("folders", nargs="*", default=FOLDERS, help=f"of {', '.join(FOLDERS)}")
    options.add_argument("--survivors", action="store_true")
    options.add_argument("--budget", type=float, default=5.0, help="CPU seconds of a mutant's tests, in all")
    options.add_argument("--workers", type=int, default=1, help="processes, each with a mutant at a time")
    commands.add_parser("report")
    commands.add_parser("check").add_argument("--count", type=int, default=10)
    given = parser.parse_args()
    if given.command == "coverage":
        return measure(given.pytest)
    if given.command == "run":
        return run(tuple(given.folders), given.survivors, given.budget, given.workers)
    if given.command == "check":
        return check(given.count)
    return report()


if __name__ == "__main__":
    sys.exit(main())
