"""The lessons: solutions pass, planted faults are named, and notebooks are in order. `pytest lessons` runs them."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from lesson_faults.altered import edited

import minitransformer
from course.checking import examine, parameter_names
from course.exercise import LESSONS, all_exercises, lessons_with_exercises, module_of, solution_of
from course.verdicts import calls

NOTEBOOKS = sorted(LESSONS.glob("*.ipynb"))
EXERCISES = all_exercises()
FAULTS = {
    f"{lesson}.{name}": faults
    for lesson in lessons_with_exercises()
    for name, faults in importlib.import_module(f"lesson_faults.{module_of(lesson)}").FAULTS.items()
}
PLANTED = [
    (
        name,
        words,
        fault if callable(fault) else edited(solution_of(name), *([fault] if isinstance(fault, str) else fault)),
    )
    for name, faults in FAULTS.items()
    for words, fault in faults.items()
]
SEEDS = range(10)
INSTALL = 'pip install ".[lessons]"'
every_seed = pytest.mark.parametrize(
    "seeds", [[None], pytest.param(SEEDS, marks=pytest.mark.slow)], ids=["usual", "ten"]
)
"""Inputs as `check` draws them, and those of ten other seeds: grading may draw any."""
every_exercise = pytest.mark.parametrize("name", EXERCISES)
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def engine_names() -> set[str]:
    """Every public name that a module of the engine defines at its top level."""
    sources = (path.read_text(encoding="utf-8") for path in Path(minitransformer.__file__).parent.rglob("*.py"))
    return {name for source in sources for name in defined_names(source) if not name.startswith("_")}


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SCOPES = (*DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Inside them names are local. (Since Python 3.12 `symtable` counts those of comprehensions as the module's.)"""


def defined_names(source: str) -> set[str]:
    """What a cell or module binds at its top level, imports left out."""
    names, nodes = set(), list(ast.parse(source).body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (*DEFINITIONS, ast.ExceptHandler)):
            names.add(node.name)
        if not isinstance(node, SCOPES):
            nodes += ast.iter_child_nodes(node)
    return names - {None}


# -- exercises --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def repeated_draws(monkeypatch):
    """What an answer draws without a seed is the same in every run: by chance a wrong one may look right."""
    real, seeds = np.random.default_rng, count()
    monkeypatch.setattr(np.random, "default_rng", lambda seed=None: real(next(seeds) if seed is None else seed))


@every_seed
@every_exercise
def test_every_solution_is_right(name, seeds):
    for seed in seeds:
        result = examine(name, solution_of(name), seed)
        assert result.verdict == "right", (seed, result.text)


@every_seed
@pytest.mark.parametrize(("name", "words", "function"), PLANTED, ids=[f"{name}-{words}" for name, words, _ in PLANTED])
def test_every_planted_fault_is_named(name, words, function, seeds):
    for seed in seeds:
        result = examine(name, function, seed)
        assert result.verdict == "wrong", seed
        assert words in result.text, seed


def test_every_exercise_has_at_least_three_planted_faults():
    assert sorted(FAULTS) == sorted(EXERCISES)
    assert min(map(len, FAULTS.values())) >= 3


@every_seed
@every_exercise
def test_every_named_mistake_can_be_recognized(name, seeds):
    """No mistake hides behind an earlier one or gives the right answer."""
    messages = [mistake.message for mistake in EXERCISES[name].mistakes]
    for seed in seeds:
        assert [examine(name, mistake.wrong, seed).text for mistake in EXERCISES[name].mistakes] == messages, seed


@every_exercise
def test_every_argument_has_a_name(name):
    """Messages show arguments that have one, and only these are looked at after the call: were they changed?"""
    names = parameter_names(EXERCISES[name], solution_of(name))
    assert max(map(len, EXERCISES[name].cases())) <= len(names)


@pytest.mark.parametrize("lesson", lessons_with_exercises())
def test_a_lesson_has_three_to_ten_exercises_and_uses_each_once(lesson):
    """All the glue of ``my_transformer`` is typed, in small pieces."""
    used = re.findall(r'^check\("([^"]+)"', "\n".join(cells(LESSONS / f"{lesson}.ipynb", "code")), re.MULTILINE)
    assert sorted(used) == sorted(name for name in EXERCISES if name.startswith(f"{lesson}."))
    assert 3 <= len(used) <= (20 if lesson == "my_transformer" else 10)


# -- notebooks --------------------------------------------------------------------------------------------------------


@every_notebook
def test_a_notebook_defines_no_name_of_the_engine(path):
    defined = set().union(*(defined_names(source) for source in cells(path, "code")))
    assert defined & (engine_names() | {"check", "check_gradient", "guess", "mine", "show", "transplant"}) == set()


@every_notebook
def test_the_first_code_cell_is_imports_with_the_install_line(path):
    body = ast.parse(cells(path, "code")[0]).body
    assert [type(node) for node in body] == [ast.Try]
    assert all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body[0].body)
    assert INSTALL in cells(path, "code")[0]


@every_notebook
def test_a_notebook_prints_little_of_the_engine(path):
    """At most 30 lines of an object and 90 in a lesson; more is machinery."""
    names, lines = {}, []
    for source in cells(path, "code"):
        imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
        for statement in imports:
            with suppress(ImportError):  # of Jupyter, which is not needed here
                exec(ast.unparse(statement), names)
        shown = [eval(ast.unparse(call.args[0]), names) for call in calls(source, "show")]
        lines += [len(inspect.getsourcelines(thing)[0]) for thing in shown]
    assert max(lines, default=0) <= 30 and sum(lines) <= 90, lines


@every_notebook
def test_relative_links_resolve(path):
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", "\n".join(cells(path, "markdown")))
    assert [link for link in links if not (LESSONS / link).exists()] == []


@pytest.mark.parametrize("call", ['create_connection(("192.0.2.1", 80), 1)', 'getaddrinfo("a.test", 80)'])
def test_the_network_is_closed_where_lessons_are_run(call):
    """.ci/run puts tests/offline on the path of the kernels."""
    program = [sys.executable, "-c", f"import socket; socket.{call}"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1] / "offline")}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
    assert "OSError: offline: lessons must not" in done.stderr
