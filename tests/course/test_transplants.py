"""The student's functions in a model: counted, and checked by the gradient of the chain so far."""

import re

import numpy as np
import pytest

from course import transplant, transplants
from course.assembly import assembled
from course.mine import HEADER
from solutions import lesson_01, my_transformer


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITRANSFORMER_MINE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("lesson", transplants.CHAINS)
def test_every_chain_of_right_functions_is_right(lesson):
    parts, faults = assembled(own_glue=False)
    _, chain, *inputs = transplants.CHAINS[lesson](parts, np.random.default_rng(0))
    assert transplants.gradient_error(parts, chain, inputs) < 1e-6
    assert len(faults) == 24


def test_a_wrong_backward_shows_in_the_chain():
    parts, _ = assembled(own_glue=False)
    parts.linear_backward = lambda grad, x, w: (2.0 * grad @ w.T, x.T @ grad, grad.sum(axis=0))
    _, chain, *inputs = transplants.CHAINS["09_transformer"](parts, np.random.default_rng(0))
    assert transplants.gradient_error(parts, chain, inputs) > 1e-3
    assert my_transformer.linear_backward is lesson_01.linear_backward


def test_it_counts_what_is_yours_and_names_what_is_not(folder, capsys):
    own = "def my_backward(g, x, w):\n    return g @ w.T, x.T @ g, g.sum(axis=0)\n"
    (folder / "01_arrays.linear_backward.py").write_text(f"{HEADER}my_backward\n\n{own}")
    (folder / "02_tape.gradients.py").write_text(f"{HEADER}f\n\ndef f(tape, n_values):\n    return [1.0] * n_values\n")
    transplant("02_tape")
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "yours: 1 of 24"
    assert re.match(r"  02_tape.gradients: not yours yet, the file in .* cannot be used: its function is wrong", second)
    assert re.fullmatch(r"two linear maps .*: relative error of its gradient \d.\de-\d+: right", last)


def test_what_is_right_alone_and_raises_in_the_chain_is_one_line(folder, capsys):
    own = "def f(g, x, w):\n    assert len(w) == len(w.T), 'not square'\n    return g @ w.T, x.T @ g, g.sum(axis=0)\n"
    (folder / "01_arrays.linear_backward.py").write_text(f"{HEADER}f\n\n{own}")
    transplant("01_arrays")
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("a linear map: WRONG. AssertionError: not square, raised in f, `assert len(w) == len(w.T)")


def test_what_is_right_alone_and_wrong_in_the_chain_is_called_wrong(folder, capsys):
    own = "def f(g, x, w):\n    return g @ w.T * (1 + (len(w) != len(w.T))), x.T @ g, g.sum(axis=0)\n"
    (folder / "01_arrays.linear_backward.py").write_text(f"{HEADER}f\n\n{own}")
    transplant("01_arrays")
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "yours: 1 of 24" and re.fullmatch("a linear map: relative error of its gradient .*: WRONG", last)


def test_lists_that_are_right_are_arrays_in_the_model(folder, capsys):
    own = "import numpy as np\n\ndef f(packed, n_heads):\n    return np.split(packed, n_heads, axis=1)\n"
    (folder / "05_heads.split.py").write_text(f"{HEADER}f\n\n{own}")
    transplant("05_heads")
    out = capsys.readouterr().out
    assert out.startswith("yours: 1 of 24\n") and out.endswith(": right\n")


def test_the_model_learns_to_copy_looks_at_what_it_writes_and_names_its_lessons(capsys):
    transplants.copies(assembled(own_glue=False)[0])
    assert int(re.search(r"copies (\d+) of 20", capsys.readouterr().out)[1]) > 10
    parts, _ = assembled(own_glue=False)
    parts.attend = my_transformer.attend  # as one that is kept: it calls weights of its own
    transplants.alignment_of(parts)
    assert capsys.readouterr().out.endswith("[0, 1, 2, 3, 4]\n")
    transplant("10_subwords")
    assert capsys.readouterr().out.startswith("transplant: there is one for 01_arrays, ")
