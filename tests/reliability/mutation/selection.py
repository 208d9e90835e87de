"""Which tests execute which lines of the package, and how long each takes: by this the tests of a mutant are chosen."""

import ast
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import pytest

from tests.reliability.mutation.mutants import FOLDERS

FILE = Path("runs/mutation/coverage.json")
LONGEST = 2.0
"""CPU seconds of a test that may be chosen."""
STARTS_A_PROCESS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system")


@dataclass(frozen=True)
class Selection:
    """seconds: of CPU, of each test
    lines: of each file, from line number to the tests that execute it; ``FILE::`` if a fixture shared by the tests of a
        file does, an empty name if it is executed before any test
    verified: whether the tests have passed in one process in the order of ``seconds``
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]
    verified: bool = False

    @classmethod
    def read(cls) -> "Selection":
        content = json.loads(FILE.read_text(encoding="utf-8"))
        for file, found in content["lines"].items():
            content["lines"][file] = {int(number): tests for number, tests in found.items()}
        return cls(**content)

    @cached_property
    def breadth(self) -> Counter:
        """How many lines each test executes: the fewer, the more direct is what it says of one of them."""
        return Counter(test for found in self.lines.values() for tests in found.values() for test in tests)

    def files(self) -> list[str]:
        return sorted({test.split("::")[0] for test in self.seconds})

    def exclude(self, tests: list[str]) -> None:
        """Choose these no more: they fail without a mutant."""
        for test in tests:
            self.seconds.pop(test, None)
        FILE.write_text(json.dumps(asdict(self) | {"verified": True}), encoding="utf-8")

    def tests_of(self, file: str, place: range, budget: float) -> list[str]:
        """The tests that execute the statement around these lines (from 0), the fastest and most direct first.

        A statement that is executed on import, such as a constant, has the tests that execute any function of the file,
        or all tests.

        budget: CPU seconds that they take in all, at most
        """
        source, lines = Path(file).read_text(encoding="utf-8"), self.lines.get(file, {})
        found = self._executing(lines, statement_lines(source, place.start + 1))
        if not found and not body_lines(source, place.start + 1):
            found = self._executing(lines, filter(partial(body_lines, source), lines)) or set(self.seconds)
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda test: (self.seconds[test] * self.breadth[test], test)):
            total += self.seconds[test]
            if total > budget:
                break
            chosen.append(test)
        return chosen

    def runs_on_import(self, file: str, place: range) -> bool:
        """Whether these lines, or some of the function around them, are executed before any test is."""
        found, body = self.lines.get(file, {}), body_lines(Path(file).read_text(encoding="utf-8"), place.start + 1)
        return not body or any("" in found.get(number, ()) for number in body)

    def _executing(self, lines: dict[int, list[str]], numbers) -> set[str]:
        named = {name for number in numbers for name in lines.get(number, ()) if name}
        shared = tuple(name for name in named if name.endswith("::"))  # a fixture of a file: all its tests
        return {test for test in self.seconds if test in named or (shared and test.startswith(shared))}


def statement_lines(source: str, number: int) -> range:
    """The lines of the innermost statement around a line; of a function's head, its body: there defaults are used."""
    best = range(number, number + 1)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
        if not first <= number <= node.end_lineno:
            continue
        body = getattr(node, "body", None)
        if not body:
            best = range(first, node.end_lineno + 1)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and number < body[0].lineno:
            best = range(body[0].lineno, node.end_lineno + 1)
        elif number < body[0].lineno:
            best = range(first, body[0].lineno)
    return best


@cache
def body_lines(source: str, number: int) -> range:
    """The lines of the body of the function around a line, the outermost; an empty range outside of functions."""
    bodies = [
        range(node.body[0].lineno, node.end_lineno + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= number <= node.end_lineno
    ]
    return max(bodies, key=len, default=range(0))


class Recorder:
    """The pytest plugin that gives coverage the name of the running test, and notes its CPU time."""

    def __init__(self, coverage):
        self.coverage, self.seconds, self.unfit, self.current = coverage, {}, set(), ""
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple) -> None:
        if event in STARTS_A_PROCESS:
            self.unfit.add(self.current)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.current, start = item.nodeid, time.process_time()
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        self.seconds[item.nodeid] = time.process_time() - start
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(self.current.split("::")[0] + "::")
        result = yield
        self.coverage.switch_context(self.current)
        return result

    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed":
            self.unfit.add(report.nodeid)


def measure(arguments: list[str]) -> int:
    """Run the tests once that pytest selects by these arguments. What is known of tests in other files stays.

    Returns: the exit code of pytest. A test that fails is not chosen for any mutant.
    """
    import coverage

    cover = coverage.Coverage(data_file=None, source=[f"minitransformer/{folder}" for folder in FOLDERS])
    recorder = Recorder(cover)
    cover.start()
    code = pytest.main([*arguments, "-q", "-p", "no:cacheprovider"], plugins=[recorder])
    cover.stop()
    known = Selection.read() if FILE.exists() else Selection({}, {})
    files = {test.split("::")[0] for test in ("", *recorder.seconds)}
    seconds = {test: used for test, used in known.seconds.items() if _is_other(test, files)}
    for test, used in recorder.seconds.items():
        if used < LONGEST and test not in recorder.unfit:
            seconds[test] = round(used, 4)
    lines = {
        file: {number: [name for name in names if _is_other(name, files)] for number, names in found.items()}
        for file, found in known.lines.items()
    }
    data = cover.get_data()
    for path in data.measured_files():
        found = lines.setdefault(Path(path).relative_to(Path.cwd()).as_posix(), {})
        for number, names in data.contexts_by_lineno(path).items():
            fit = {name for name in names if name in seconds or name.endswith("::") or not name}
            found[number] = sorted({*found.get(number, ()), *fit})
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(asdict(Selection(seconds, lines))), encoding="utf-8")
    return code


def _is_other(test: str, files: set[str]) -> bool:
    """Whether a test is in none of these files, and in one that exists."""
    file = test.split("::")[0]
    return file not in files and Path(file).exists()
