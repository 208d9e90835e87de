"""A mutant is put in place and its tests are run, in a process of its own with limits of time and memory.

The process is forked from one that has loaded the package and collected all tests; there the code of the mutated
function is replaced. A mutant outside of functions, or in one that already ran on import, needs everything imported
anew, which takes longer.
"""

import gc
import importlib
import inspect
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import CodeType
from typing import TypeVar

import pytest

from tests.reliability.mutation.mutants import Mutant

CPU_SECONDS = 10
WALL_SECONDS = 15
"""For each second of CPU time: a mutant that waits forever uses none."""
MEMORY = 2 << 30
"""Bytes that a mutant may take besides what is loaded."""
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "--no-header", "--tb=no"]

Report = Callable[[str], None]
T, R = TypeVar("T"), TypeVar("R")


class Trials:
    """The pytest plugin that, instead of running the tests that were collected, calls ``work(self)``."""

    def __init__(self, work: Callable[["Trials"], None]):
        self.work, self.items, self.failed = work, {}, None

    def pytest_runtestloop(self, session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        gc.freeze()  # or a collection in a child copies all memory
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed(report.nodeid)

    def failing(self, tests: list[str], seconds: int) -> list[str]:
        """Which of the tests fail without a mutant, in this order in one process: as loaded, or imported anew."""
        runs = (partial(run, tests) for run in (self._run, _import_and_run))
        return [test for run in runs for test in in_child(run, seconds)[1].splitlines()]

    def of(self, mutant: Mutant, tests: list[str], fresh: bool) -> tuple[str, str, float]:
        """(caught, survived or timeout; the test that failed; CPU seconds)

        fresh: whether everything must be imported anew
        """

        def work(report: Report) -> int:
            put_in_place, run = (import_mutated, _import_and_run) if fresh else (replace_code, self._run)
            put_in_place(mutant)
            return run(tests, partial(_report_and_exit, report))

        return in_child(work, CPU_SECONDS)

    def _run(self, tests: list[str], report: Report) -> int:
        self.failed = report
        for item, following in pairwise([*(self.items[test] for test in tests), None]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return 0


def in_child(work: Callable[[Report], int], seconds: int) -> tuple[str, str, float]:
    """(caught, survived or timeout; the lines that were reported; CPU seconds) of ``work(report)`` in a forked process.

    work: returns an exit code as pytest's
    """
    reader, writer = os.pipe()
    folder = tempfile.mkdtemp()
    if (child := os.fork()) == 0:
        code = 3
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            loaded = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (loaded + MEMORY, loaded + MEMORY))
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # of the tests' temporary files
            for stream in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), stream)
            code = int(work(lambda test: os.write(writer, f"{test}\n".encode())))
        finally:
            os._exit(code)
    os.close(writer)
    deadline, late = time.monotonic() + WALL_SECONDS * seconds, False
    while (ended := os.wait4(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            late = True
        time.sleep(0.003)
    shutil.rmtree(folder, ignore_errors=True)
    with open(reader, encoding="utf-8") as pipe:
        reported = pipe.read().rstrip()
    code, used = os.waitstatus_to_exitcode(ended[1]), ended[2].ru_utime + ended[2].ru_stime
    # The child ends with INTERNAL_ERROR where its tests cannot be run at all: that must not count as caught.
    if code == pytest.ExitCode.NO_TESTS_COLLECTED or (code == pytest.ExitCode.INTERNAL_ERROR and not reported):
        raise RuntimeError("the tests of a mutant could not be run; measure the coverage again")
    status = "timeout" if late or code == -signal.SIGXCPU else "caught" if code else "survived"
    return status, reported or (f"exit code {code}" if code else ""), used


def in_parallel(work: Callable[[T], R], values: list[T], workers: int) -> Iterator[tuple[T, R]]:
    """Each value with ``work(value)``, as they are done, by forked processes."""
    pool = ProcessPoolExecutor(workers, get_context("fork"), _set_work, (work,))
    try:
        running = {pool.submit(_do_work, value): value for value in values}
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _set_work(work: Callable) -> None:
    """In a process of the pool, which cannot be sent a nested function."""
    global _work
    _work = work


def _do_work(value: T) -> R:
    return _work(value)


def replace_code(mutant: Mutant) -> None:
    """Put the mutant into the function as it is loaded: whoever holds the function has the mutant."""
    function = importlib.import_module(_module_name(Path(mutant.file)))
    for name in mutant.function.split("."):  # a nested function is replaced with the one around it
        function = vars(function)[name]
        function = inspect.unwrap(getattr(function, "fget", None) or getattr(function, "__func__", function))
        if inspect.isfunction(function):
            break
    source = Path(mutant.file).read_text(encoding="utf-8")
    codes = [compile(mutant.apply(source), function.__code__.co_filename, "exec")]
    for code in codes:
        codes.extend(each for each in code.co_consts if isinstance(each, CodeType))
    function.__code__ = next(code for code in codes if code.co_qualname == function.__qualname__)


class MutatedFile(SourceFileLoader):
    """Finds and loads the module of the mutant, mutated in memory: nothing is written to the disk."""

    def __init__(self, mutant: Mutant):
        path = Path(mutant.file)
        self.source = mutant.apply(path.read_text(encoding="utf-8"))
        super().__init__(_module_name(path), str(path.resolve()))

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)

    def find_spec(self, fullname: str, path=None, target=None):
        if fullname != self.name:
            return None
        folders = [str(Path(self.path).parent)] if self.path.endswith("__init__.py") else None
        return spec_from_file_location(fullname, self.path, loader=self, submodule_search_locations=folders)


def import_mutated(mutant: Mutant) -> None:
    """Have the mutant imported in place of its module, from now on."""
    sys.meta_path.insert(0, MutatedFile(mutant))


class Chosen:
    """The pytest plugin that runs these tests in this order and reports those that fail."""

    def __init__(self, tests: list[str], report: Report):
        self.place, self.report = {test: i for i, test in enumerate(tests)}, report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list) -> None:
        chosen = [item for item in items if item.nodeid in self.place]
        items[:] = sorted(chosen, key=lambda item: self.place[item.nodeid])

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.report(report.nodeid)


def _import_and_run(tests: list[str], report: Report) -> int:
    for name, module in list(sys.modules.items()):
        is_ours = (getattr(module, "__file__", None) or "").startswith(str(Path.cwd()))
        if is_ours and not name.startswith(("tests.reliability", "__main__")):
            del sys.modules[name]
    return pytest.main([*OPTIONS, *sorted({test.split("::")[0] for test in tests})], plugins=[Chosen(tests, report)])


def _module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _report_and_exit(report: Report, test: str) -> None:
    report(test)
    os._exit(1)
