"""The course: solutions pass, planted faults are named, and notebooks are in order. They are run by .ci/run."""

import _thread
import ast
import builtins
import importlib
import json
import re
import subprocess
import symtable
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from extras import need

import minitransformer
from course import check, show
from course.checking import examine
from course.exercise import LESSONS, all_exercises, lessons_with_exercises, module_of, solution_of
from course.gradients import check_gradient
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.layer_norm import layer_norm, layer_norm_backward, layer_norm_forward
from minitransformer.ops.softmax import softmax_backward, softmax_forward

NOTEBOOKS = sorted(LESSONS.glob("*.ipynb"))
EXERCISES = all_exercises()
FAULTS = [
    pytest.param(f"{lesson}.{name}", function, words, id=f"{lesson}.{name}-{words}")
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


class Unprintable(Exception):
    def __str__(self):
        raise ValueError


def raises_this(error):
    def raising(q, k, mask):
        raise error

    return raising


def closes_output(q, k, mask):
    sys.stdout.close()
    sys.stderr = sys.stdout = None


def deletes(q, k, mask):
    del np.allclose, builtins.zip


class OddArray(np.ndarray):
    """Refuses to be computed with."""

    def __array_ufunc__(self, *inputs, **options):
        raise RuntimeError("no arithmetic here")


BAD = {
    "None": (lambda q, k, mask: None, "is a `return` missing?"),
    "a list": (lambda q, k, mask: (q @ k.T).tolist(), "must be an array of shape (1, 3), got a list"),
    "text": (lambda q, k, mask: "weights", "got a str"),
    "shape": (lambda q, k, mask: np.zeros(3), "must have the shape (1, 3), got (3,)"),
    "NaN": (lambda q, k, mask: np.full(mask.shape, np.nan), "holds NaN"),
    "changed input": (changes, "changed its input q"),
    "exception": (raises, "raised IndexError"),
    "the line": (raises, "`return np.zeros(3)[q.shape[0] + 5]`"),
    "wrong parameters": (lambda q: q, "raised TypeError"),
    "exit": (lambda q, k, mask: sys.exit(3), "raised SystemExit: 3, in its line 1"),
    "Ctrl-C": (raises_this(KeyboardInterrupt()), "raised KeyboardInterrupt, in its line 2"),
    "no Exception": (raises_this(GeneratorExit()), "raised GeneratorExit"),
    "no input here": (raises_this(type("NoInput", (NotImplementedError,), {})()), "raised NoInput"),
    "an error without text": (raises_this(Unprintable()), "raised Unprintable, in its line 2"),
    "an error of many pages": (raises_this(ValueError("page\n" * 10_000)), "raised ValueError: page page"),
    "closed output": (closes_output, "is a `return` missing?"),
    "harm to NumPy": (deletes, "deleted or replaced numpy.allclose, builtins.zip; that was put back"),
    "a masked array": (lambda q, k, mask: np.ma.masked_array(mask * 1.0, mask), "got a MaskedArray"),
    "a matrix": (lambda q, k, mask: np.zeros(mask.shape).view(np.matrix), "got a matrix"),
    "infinite": (lambda q, k, mask: np.full(mask.shape, np.inf), "got [[inf, inf"),
    "not a function": (np.zeros((99, 99)), "needs the function itself, got an array of shape (99, 99)"),
}


@pytest.mark.parametrize(("function", "words"), BAD.values(), ids=BAD)
def test_a_bad_function_is_answered_in_one_paragraph(function, words):
    result = examine("04_attention.weights", function)
    assert result.verdict == "wrong"
    assert words in result.text
    assert "Traceback" not in str(result) and "\n\n" not in str(result) and len(str(result)) < 900
    assert examine("04_attention.weights", solution_of("04_attention.weights")).verdict == "right"


@pytest.mark.parametrize(
    ("name", "result", "words"),
    [
        ("10_subwords.pair_counts", {("a", "b</w>"): np.zeros(3)}, "Expected {('a', 'b</w>'): 3}"),
        ("08_positions.rotary", np.zeros((2, 4)).view(OddArray), "got a OddArray"),
        ("02_tape.order", [10**5000], "could not use a list of 1, which the function returned: ValueError"),
        ("02_tape.order", [7] * 10**6, "Op 7 is walked twice"),
        ("07_feed_forward.interpolation", (*np.zeros((2, 1, 3)), 0, 0), "Part 1 of the result must"),
        ("13_bleu.split_compounds", "x" * 10**6, "Expected"),
    ],
)
def test_an_odd_result_is_answered_in_one_paragraph(name, result, words):
    answer = examine(name, lambda *inputs: result)
    assert answer.verdict == "wrong"
    assert words in answer.text
    assert len(str(answer)) < 2_500


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308, np.nan])
def test_checks_of_great_numbers_print_no_warnings(value):
    assert examine("04_attention.self_attention", lambda x, *weights: np.full_like(x, value)).verdict == "wrong"


def test_what_a_function_prints_is_shown_up_to_a_limit(capsys):
    check("04_attention.weights", lambda q, k, mask: [print("scores", i) for i in range(10_000)])
    printed = capsys.readouterr().out
    assert printed.startswith("scores 0\nscores 1\n") and len(printed) < 6_000
    assert "[what the function prints goes on]\n04_attention.weights: wrong." in printed


def test_a_function_that_cannot_be_stopped_is_told_so(monkeypatch):
    monkeypatch.setitem(EXERCISES["04_attention.weights"].__dict__, "seconds", 0.1)
    assert "restart the kernel" in examine("04_attention.weights", lambda q, k, mask: time.sleep(3)).text
    assert "restart" not in examine("04_attention.weights", loops).text


def test_the_readers_own_interrupt_stops_the_function(monkeypatch):
    stopped = threading.Event()

    def runs(q, k, mask):
        try:
            _thread.interrupt_main()
            loops(q, k, mask)
        finally:
            stopped.set()

    with pytest.raises(KeyboardInterrupt):
        examine("04_attention.weights", runs)
    assert stopped.wait(1.0)


def test_a_function_that_loops_for_ever_is_stopped(monkeypatch):
    monkeypatch.setitem(EXERCISES["04_attention.weights"].__dict__, "seconds", 0.3)
    assert "had not come back after 0.3 s" in examine("04_attention.weights", loops).text


def holds_on(q, k, mask):
    while True:
        try:
            np.linalg.norm(q)  # the exception that is to stop the loop is thrown in here
        except:  # noqa: E722
            continue


def test_a_bare_except_does_not_keep_a_loop_alive(monkeypatch, capsys):
    monkeypatch.setitem(EXERCISES["04_attention.weights"].__dict__, "seconds", 0.1)
    before = threading.active_count()
    assert "restart" not in examine("04_attention.weights", holds_on).text
    assert threading.active_count() <= before
    assert capsys.readouterr().err == ""


def not_implemented(q, k, mask):
    raise NotImplementedError


@pytest.mark.parametrize("function", [lambda q, k, mask: ..., lambda q, k, mask: (..., q), not_implemented])
def test_an_unfilled_exercise_says_not_yet(function):
    assert str(examine("04_attention.weights", function)) == "04_attention.weights: not yet."


def test_an_unknown_exercise_is_told_the_nearest_names():
    assert "04_attention.weights" in examine("04_attention.wieghts", loops).text
    assert "01_arrays.centred" in examine("", loops).text and len(examine("", loops).text) < 300


@pytest.mark.parametrize("name", [loops, None, ["04_attention.weights"]])
def test_a_name_that_is_no_text_is_told(name):
    assert "name comes first" in examine(name, "04_attention.weights").text


def test_a_difference_without_a_name_shows_the_smallest_example():
    text = examine("04_attention.weights", lambda q, k, mask: solution_of("04_attention.weights")(q, k, mask) ** 2).text
    assert text.startswith("Expected [[") and "q = [[" in text


def test_a_factor_is_told_only_if_all_failing_cases_have_one():
    streaming = solution_of("04_attention.streaming")  # its first case has one query
    text = examine("04_attention.streaming", lambda q, k, v, size: streaming(q, k, v, size) * (1 + q[:, :1])).text
    assert text.startswith("Expected [[")
    text = examine("04_attention.streaming", lambda q, k, v, size: streaming(q, k, v, size) * len(k)).text
    assert text.startswith("Every number is 4 times the right one.")


# -- show, check_gradient ---------------------------------------------------------------------------------------------


def test_show_prints_file_line_and_source(capsys):
    show(attention_forward)
    first, _, source = capsys.readouterr().out.partition("\n\n")
    assert re.fullmatch(r"minitransformer/ops/attention\.py, line \d+", first)
    assert source.startswith("def attention_forward(") and "weights @ v" in source


@pytest.mark.parametrize("thing", [3, None, np.exp, np.zeros(3), layer_norm, eval("lambda: 0")])
def test_show_says_what_has_no_source(thing, capsys):
    show(thing)
    assert re.fullmatch(r"`show` prints functions .*; .* has no such source\.\n", capsys.readouterr().out)


def changes_in_place(grad_y, saved):
    grad_y *= 2.0
    return (grad_y,)


BAD_BACKWARD = {
    "None": (
        lambda grad_y, saved: None,
        "WRONG. The backward must return a tuple of 1, a gradient per input; got None.",
    ),
    "no tuple": (lambda grad_y, saved: grad_y, "got an array of shape (2, 3)."),
    "too many": (lambda grad_y, saved: (grad_y, grad_y), "got a tuple of 2."),
    "shape": (lambda grad_y, saved: (grad_y[:1],), "must have the shape (2, 3), got (1, 3)."),
    "NaN": (lambda grad_y, saved: (grad_y * np.nan,), "relative error nan: WRONG in input 0"),
    "inf": (lambda grad_y, saved: (grad_y * np.inf,), "WRONG in input 0"),
    "raises": (lambda grad_y, saved: saved[3], "WRONG. IndexError: tuple index out of range, raised in <lambda>"),
    "in place": (changes_in_place, "read-only, raised in changes_in_place, `grad_y *= 2.0`."),
    "exit": (lambda grad_y, saved: sys.exit(), "WRONG. SystemExit, raised in <lambda>"),
    "unfilled": (lambda grad_y, saved: ..., "<lambda>: not yet"),
    "loop": (lambda grad_y, saved: loops([], saved, None), "WRONG. It had not come back after 0.3 s."),
    "not a function": (3, "WRONG. TypeError: 'int' object is not callable"),
}


@pytest.mark.parametrize(("backward", "words"), BAD_BACKWARD.values(), ids=BAD_BACKWARD)
def test_check_gradient_answers_a_bad_backward_in_one_line(backward, words, capsys, monkeypatch):
    monkeypatch.setattr("course.gradients.SECONDS", 0.3)
    x = np.arange(6.0).reshape(2, 3)
    check_gradient((softmax_forward, backward), x)
    out = capsys.readouterr().out
    assert words in out and out.count("\n") == 1
    assert np.array_equal(x, np.arange(6.0).reshape(2, 3))


def test_check_gradient_answers_a_wrong_call_in_one_line(capsys):
    check_gradient(softmax_forward, np.zeros(3))
    check_gradient((softmax_forward, softmax_backward))
    check_gradient((softmax_forward, softmax_backward), "text")
    first, second, third = capsys.readouterr().out.splitlines()
    assert "a pair (forward, backward)" in first and "missing 1 required" in second and "'text'" in third


def test_fill_names_the_notebooks_if_one_is_unknown(capsys):
    need("nbclient")
    main = importlib.import_module("course.fill").main
    assert main(["04_atention"]) == 1
    assert "there is no notebook 04_atention; there are 01_arrays, " in capsys.readouterr().out


def test_fill_refuses_a_notebook_that_takes_too_long(monkeypatch, capsys):
    need("nbclient")
    fill = importlib.import_module("course.fill")
    monkeypatch.setattr(fill, "run", lambda name, limit: [])
    assert fill.main(["04_attention", "--seconds", "9"]) == 0
    assert fill.main(["04_attention", "--seconds", "0"]) == 1
    assert "04_attention: must run in 0 s, took" in capsys.readouterr().out


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
