"""The course: solutions pass, planted faults are named, and notebooks are in order. They are run by .ci/run."""

import ast
import importlib
import json
import re
import subprocess
import symtable
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import minitransformer
from course import show
from course.checking import examine
from course.exercise import LESSONS, all_exercises, lessons_with_exercises, module_of, solution_of
from course.gradients import check_gradient
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.layer_norm import layer_norm, layer_norm_backward, layer_norm_forward

NOTEBOOKS = sorted(LESSONS.glob("*.ipynb"))
EXERCISES = all_exercises()
FAULTS = [
    pytest.param(f"{lesson}.{name}", function, words, id=f"{lesson}.{name}-{function.__name__}")
    for lesson in lessons_with_exercises()
    for name, faults in importlib.import_module(f"lesson_faults.{module_of(lesson)}").FAULTS.items()
    for function, words in faults
]
INSTALL = "pip install '.[lessons]'"
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def engine_names() -> set[str]:
    """Every public name that a module of the engine defines at its top level."""
    names = set()
    for path in Path(minitransformer.__file__).parent.rglob("*.py"):
        names |= defined_names(path.read_text(encoding="utf-8"))
    return {name for name in names if not name.startswith("_")}


def defined_names(source: str) -> set[str]:
    """What a cell or module binds at its top level, imports left out."""
    symbols = symtable.symtable(source, "source", "exec").get_symbols()
    return {each.get_name() for each in symbols if each.is_assigned() and not each.is_imported()}


# -- exercises --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_every_solution_is_right(name):
    result = examine(name, solution_of(name))
    assert result.verdict == "right", result.text


@pytest.mark.parametrize(("name", "function", "words"), FAULTS)
def test_every_planted_fault_is_named(name, function, words):
    result = examine(name, function)
    assert result.verdict == "wrong"
    assert words in result.text


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_three_planted_faults(name):
    assert sum(fault.values[0] == name for fault in FAULTS) >= 3


@pytest.mark.parametrize("name", EXERCISES)
def test_every_named_mistake_can_be_recognised(name):
    """No mistake hides behind an earlier one or gives the right answer."""
    exercise = EXERCISES[name]
    assert [examine(name, mistake.wrong).text for mistake in exercise.mistakes] == [
        mistake.message for mistake in exercise.mistakes
    ]


@pytest.mark.parametrize("lesson", lessons_with_exercises())
def test_a_lesson_has_three_to_ten_exercises_and_uses_each_once(lesson):
    used = re.findall(r'^check\("([^"]+)"', "\n".join(cells(LESSONS / f"{lesson}.ipynb", "code")), re.MULTILINE)
    assert sorted(used) == sorted(name for name in EXERCISES if name.startswith(f"{lesson}."))
    assert 3 <= len(used) <= 10


# -- bad functions ----------------------------------------------------------------------------------------------------


def loops(q, k, mask):
    while True:
        try:
            len(q)
        except Exception:
            return None


def raises(q, k, mask):
    return np.zeros(3)[q.shape[0] + 5]


def changes(q, k, mask):
    q *= 2.0
    return q @ k.T


BAD = {
    "None": (lambda q, k, mask: None, "is a `return` missing?"),
    "a list": (lambda q, k, mask: (q @ k.T).tolist(), "must be an array of shape (1, 2), got a list"),
    "text": (lambda q, k, mask: "weights", "got a str"),
    "shape": (lambda q, k, mask: np.zeros(3), "must have the shape (1, 2), got (3,)"),
    "NaN": (lambda q, k, mask: np.full(mask.shape, np.nan), "holds NaN"),
    "changed input": (changes, "changed its input q"),
    "exception": (raises, "raised IndexError"),
    "the line": (raises, "`return np.zeros(3)[q.shape[0] + 5]`"),
    "wrong parameters": (lambda q: q, "raised TypeError"),
    "exit": (lambda q, k, mask: sys.exit(3), "raised SystemExit"),
    "not a function": (3, "needs the function itself"),
}


@pytest.mark.parametrize(("function", "words"), BAD.values(), ids=BAD)
def test_a_bad_function_is_answered_in_one_paragraph(function, words):
    result = examine("04_attention.weights", function)
    assert result.verdict == "wrong"
    assert words in result.text
    assert "Traceback" not in str(result) and "\n\n" not in str(result) and len(str(result)) < 900


def test_a_function_that_loops_for_ever_is_stopped(monkeypatch):
    monkeypatch.setitem(EXERCISES["04_attention.weights"].__dict__, "seconds", 0.3)
    assert "had not come back after 0.3 s" in examine("04_attention.weights", loops).text


def not_implemented(q, k, mask):
    raise NotImplementedError


@pytest.mark.parametrize("function", [lambda q, k, mask: ..., lambda q, k, mask: (..., q), not_implemented])
def test_an_unfilled_exercise_says_not_yet(function):
    assert str(examine("04_attention.weights", function)) == "04_attention.weights: not yet."


def test_an_unknown_exercise_is_told_the_nearest_names():
    assert "04_attention.weights" in examine("04_attention.wieghts", loops).text


def test_a_difference_without_a_name_shows_the_smallest_example():
    text = examine("04_attention.weights", lambda q, k, mask: solution_of("04_attention.weights")(q, k, mask) ** 2).text
    assert text.startswith("Expected [[") and "q = [[" in text


# -- show, check_gradient ---------------------------------------------------------------------------------------------


def test_show_prints_file_line_and_source(capsys):
    show(attention_forward)
    first, _, source = capsys.readouterr().out.partition("\n\n")
    assert re.fullmatch(r"minitransformer/ops/attention\.py, line \d+", first)
    assert source.startswith("def attention_forward(") and "weights @ v" in source


def test_check_gradient_names_the_wrong_input(rng, capsys):
    x, gamma, beta = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal(4)
    check_gradient(layer_norm, x, gamma, beta)
    assert capsys.readouterr().out.endswith(": right\n")

    def forgets_beta(grad_y, saved):
        grad_x, grad_gamma, grad_beta = layer_norm_backward(grad_y, saved)
        return grad_x, grad_gamma, 0.5 * grad_beta

    check_gradient((layer_norm_forward, forgets_beta), x, gamma, beta)
    out = capsys.readouterr().out
    assert out.startswith("forgets_beta:") and "WRONG in input 2" in out and out.count("\n") == 1


# -- notebooks --------------------------------------------------------------------------------------------------------


@every_notebook
def test_outputs_are_stripped(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"]]


@every_notebook
def test_a_notebook_defines_no_name_of_the_engine(path):
    defined = set().union(*(defined_names(source) for source in cells(path, "code")))
    assert defined & (engine_names() | {"check", "check_gradient", "show"}) == set()


@every_notebook
def test_the_first_code_cell_is_imports_with_the_install_line(path):
    body = ast.parse(cells(path, "code")[0]).body
    assert [type(node) for node in body] == [ast.Try]
    assert all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body[0].body)
    assert INSTALL in cells(path, "code")[0]


@pytest.mark.parametrize("path", [*NOTEBOOKS, *LESSONS.glob("*.md")], ids=lambda path: path.name)
def test_relative_links_resolve(path):
    text = "\n".join(cells(path, "markdown")) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [link for link in links if link and "://" not in link and not (LESSONS / link).exists()] == []


@every_notebook
def test_the_table_of_lessons_names_the_notebook(path):
    assert f"]({path.name})" in (LESSONS / "README.md").read_text(encoding="utf-8")


def test_the_network_is_closed_where_lessons_are_run():
    """.ci/run puts tests/offline on the path of the kernels."""
    program = """
        import socket
        for call in (lambda: socket.create_connection(("192.0.2.1", 80), 1), lambda: socket.getaddrinfo("a.test", 80)):
            try:
                call()
            except OSError as error:
                print(error)
        """
    environment = {"PYTHONPATH": str(Path(__file__).parent / "offline")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.count("offline: lessons must not") == 2
