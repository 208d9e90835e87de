"""Mutation testing: does a test fail for every operator, constant and index that is replaced by another?

    python -m tests.reliability.mutation coverage          which tests execute which lines, into runs/mutation/
    python -m tests.reliability.mutation run [FOLDER ...]  test the mutants that have no result yet
    python -m tests.reliability.mutation run --survivors   test again those that survived
    python -m tests.reliability.mutation report            the table of results/mutation.md

A mutant's tests are those that execute the mutated statement, the fastest first, until one fails. It has a process of
its own, with CPU_SECONDS of processor time, forked from one that has collected all tests: there the code of the mutated
function is replaced. What is not in a function, and each mutant that survives, is tested by importing the package anew.
"""

import argparse
import importlib
import inspect
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import CodeType

import pytest
from tqdm import tqdm

from tests.reliability.coverage_of_tests import Coverage, body_lines, measure
from tests.reliability.mutants import FOLDERS, Mutant, all_mutants

CPU_SECONDS = 10
WALL_SECONDS = 15
"""For each second of processor time: a mutant that waits forever computes nothing."""
MEMORY = 2 << 30
"""Bytes that a mutant may take besides what is loaded."""
RESULTS = Path(__file__).parent / "results" / "mutation.jsonl"
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "--no-header", "--tb=no", "--basetemp=runs/mutation/tmp"]


class MutatedFile(SourceFileLoader):
    """Imports ``minitransformer`` with the mutant in its place. Nothing is written to the disk."""

    def __init__(self, mutant: Mutant):
        path = Path(mutant.file)
        self.source = mutant.apply(path.read_text())
        super().__init__(module_name(path), str(path.resolve()))

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)

    def find_spec(self, fullname: str, path=None, target=None):
        folders = [str(Path(self.path).parent)] if self.path.endswith("__init__.py") else None
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, self.path, loader=self, submodule_search_locations=folders)


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def replace_code(mutant: Mutant) -> None:
    """Put the mutant into the function as it is loaded: whoever holds the function has the mutant."""
    function = importlib.import_module(module_name(Path(mutant.file)))
    for name in mutant.function.split("."):  # a nested function is replaced with the one around it
        function = vars(function)[name]
        function = inspect.unwrap(getattr(function, "fget", None) or getattr(function, "__func__", function))
        if inspect.isfunction(function):
            break
    codes = [compile(mutant.apply(Path(mutant.file).read_text()), function.__code__.co_filename, "exec")]
    for code in codes:
        codes.extend(each for each in code.co_consts if isinstance(each, CodeType))
    function.__code__ = next(code for code in codes if code.co_qualname == function.__qualname__)


def in_child(work: Callable[[Callable[[str], None]], int], seconds: int) -> tuple[str, str, float]:
    """(caught, survived or timeout; the lines that were reported; CPU seconds) of ``work(report)`` in a forked process.

    work: returns an exit code as pytest's
    """
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            for stream in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), stream)
            code = int(work(lambda test: os.write(writer, f"{test}\n".encode())))
        except BaseException:
            code = 3
        os._exit(code)
    os.close(writer)
    deadline, late = time.monotonic() + WALL_SECONDS * seconds, False
    while (ended := os.wait4(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            late = True
        time.sleep(0.003)
    with open(reader) as pipe:
        failed = pipe.read().rstrip()
    code, used = os.waitstatus_to_exitcode(ended[1]), ended[2].ru_utime + ended[2].ru_stime
    if code == 5:
        raise RuntimeError("no test was collected; measure the coverage again")
    status = "timeout" if late or code == -signal.SIGXCPU else "caught" if code else "survived"
    return status, failed or (f"exit code {code}" if code else ""), used


def report_and_exit(report: Callable[[str], None], test: str) -> None:
    report(test)
    os._exit(1)


class Chosen:
    """The pytest plugin of a child process that imports everything: these tests in this order, until one fails."""

    def __init__(self, tests: list[str], report: Callable[[str], None]):
        self.place, self.report = {test: i for i, test in enumerate(tests)}, report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda each: self.place[each.nodeid]
        )

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            report_and_exit(self.report, report.nodeid)


def test_imported(mutant: Mutant | None, tests: list[str], report: Callable[[str], None]) -> int:
    """Import the package with the mutant, and the tests, as if nothing of them had been loaded."""
    here = str(Path.cwd())
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(here) and not name.startswith(
            ("tests.reliability", "__main__")
        ):
            del sys.modules[name]
    if mutant is not None:
        sys.meta_path.insert(0, MutatedFile(mutant))
    return pytest.main([*OPTIONS, *sorted({test.split("::")[0] for test in tests})], plugins=[Chosen(tests, report)])


class MutationRun:
    """The pytest plugin of the parent process: instead of running the tests it has collected, it tests the mutants."""

    def __init__(self, mutants: list[Mutant], coverage: Coverage, budget: float):
        self.mutants, self.coverage, self.budget = mutants, coverage, budget
        self.items, self.failed = {}, None

    def pytest_runtestloop(self, session) -> bool:
        self.items = {item.nodeid: item for item in session.items if item.nodeid in self.coverage.seconds}
        if not self.coverage.verified:
            work = partial(self.test_loaded, None, list(self.items))
            self.coverage.exclude(in_child(work, 600)[1].splitlines())
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            for mutant in tqdm(self.mutants, unit="mutant", file=sys.__stderr__):
                file.write(json.dumps(self.result(mutant), ensure_ascii=False) + "\n")
                file.flush()
        return True

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed(report.nodeid)

    def result(self, mutant: Mutant) -> dict:
        """The result of a mutant, as it stands in RESULTS."""
        source = Path(mutant.file).read_text()
        place = mutant.lines(source)
        tests = self.coverage.tests_of(mutant.file, place, self.budget)
        status, test, used = "survived", "", 0.0
        inside = body_lines(source, place.start + 1)
        if tests and inside:
            status, test, used = in_child(partial(self.test_loaded, mutant, tests), CPU_SECONDS)
        if tests and status == "survived" and not (inside and not self.coverage.runs_on_import(mutant.file, place)):
            status, test, used = in_child(partial(test_imported, mutant, tests), CPU_SECONDS)
        return vars(mutant) | {"status": status, "test": test, "tests": len(tests), "seconds": round(used, 2)}

    def test_loaded(self, mutant: Mutant | None, tests: list[str], report: Callable[[str], None]) -> int:
        if mutant is not None:
            replace_code(mutant)
        self.failed = report if mutant is None else partial(report_and_exit, report)
        for item, following in pairwise([*(self.items[test] for test in tests), None]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return 0


def read_results() -> dict[Mutant, dict]:
    """The last result of every mutant."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = map(json.loads, lines)
    return {Mutant(*(row[name] for name in Mutant.__match_args__)): row for row in rows}


def run(folders: tuple[str, ...], survivors: bool, count: int | None, budget: float) -> None:
    results, coverage = read_results(), Coverage.read()
    if survivors:
        todo = [mutant for mutant, row in results.items() if row["status"] != "caught"]
    else:
        todo = [mutant for mutant in all_mutants(folders) if mutant not in results]
    for name in ("matplotlib.pyplot", "torch"):  # once, not in each child
        importlib.import_module(name)
    files = sorted({test.split("::")[0] for test in coverage.seconds})
    pytest.main([*OPTIONS, *files], plugins=[MutationRun(todo[:count], coverage, budget)])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.mutation", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("coverage").add_argument("pytest", nargs="*")
    one = commands.add_parser("run")
    one.add_argument("folders", nargs="*", default=FOLDERS)
    one.add_argument("--survivors", action="store_true")
    one.add_argument("--count", type=int)
    one.add_argument("--budget", type=float, default=5.0)
    options = parser.parse_args(arguments)
    if options.command == "coverage":
        measure(options.pytest)
    else:
        run(tuple(options.folders), options.survivors, options.count, options.budget)


if __name__ == "__main__":
    main(sys.argv[1:])
