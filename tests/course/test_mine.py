"""What a student solves is kept, with all that it needs, and comes back only while it is right."""

import inspect
import io
import linecache
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from course import check, guess, mine, progress
from course.exercise import LESSONS, solution_of
from course.mine import HEADER, source_hash
from course.own_source import standalone_source

WEIGHTS = "04_attention.weights"
CELLS = """
import numpy as np
from math import sqrt as root
LOWEST = -1e300
SHAPE = (2, 3)
table = np.zeros(3)
scores = table

class Scale:
    def of(self, q):
        return root(q.shape[-1])

def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def my_weights(q, k, mask):
    scores = q @ k.swapaxes(-1, -2) / Scale().of(q)
    return softmax(np.where(mask, scores, LOWEST)) * mask

HIDDEN, ONE = -np.inf, np.sqrt(1)

def with_numbers(q, k, mask):
    return ONE * my_weights(q, k, mask) * (mask * 1.0 > HIDDEN)

def with_array(q, k, mask):
    return my_weights(q, k, mask) + table[0]

def with_file(q, k, mask):
    return my_weights(q, k, mask) + (stream is None)

def made(factor):
    def inner(q, k, mask):
        return factor * my_weights(q, k, mask)
    return inner

with_closure = made(1.0)
nameless = lambda q, k, mask: my_weights(q, k, mask)

def uses_earlier(x):
    return earlier(stand_in(x), x, True)

def wrong(q, k, mask):
    return softmax(q @ k.swapaxes(-1, -2))
"""


@pytest.fixture
def cells(tmp_path, monkeypatch):
    """What a notebook defines, and the folder in which its right functions are kept."""
    monkeypatch.setenv("MINITRANSFORMER_MINE", str(tmp_path / "mine"))
    name = str(tmp_path / "cell.py")
    linecache.cache[name] = len(CELLS), None, CELLS.splitlines(keepends=True), name
    defined = {"__name__": "__main__", "stream": io.StringIO()}
    exec(compile(CELLS, name, "exec"), defined)
    return defined


@pytest.fixture
def kept(cells, tmp_path, capsys):
    """The file of a right function."""
    check(WEIGHTS, cells["my_weights"])
    assert capsys.readouterr().out.endswith("It is kept as yours.\n")
    return tmp_path / "mine" / f"{WEIGHTS}.py"


def test_a_right_function_is_kept_with_its_helpers_constants_and_imports(kept):
    text = kept.read_text()
    for part in ("import numpy as np", "import sqrt as root", "class Scale", "LOWEST = -1e+300"):
        assert part in text
    assert "SHAPE" not in text and "table" not in text
    program = f"from course import mine; f = mine({WEIGHTS!r}); print(f.__module__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=LESSONS)
    assert done.stdout == f"mine.{WEIGHTS}\n"


def test_infinity_and_numpys_numbers_are_kept_too(cells, capsys, tmp_path):
    check(WEIGHTS, cells["with_numbers"])
    assert capsys.readouterr().out.endswith("It is kept as yours.\n")
    text = (tmp_path / "mine" / f"{WEIGHTS}.py").read_text()
    assert 'HIDDEN = float("-inf")\n' in text and "ONE = 1.0\n" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("with_array", "it needs `table`, an array of shape (3,) from another cell"),
        ("with_file", "it needs `stream`, a StringIO from another cell"),
        ("with_closure", "`inner` is made inside another function and needs its `factor`"),
        ("nameless", "a function to keep is written with `def`"),
    ],
)
def test_what_has_no_source_is_right_but_not_kept(name, words, cells, capsys, tmp_path):
    check(WEIGHTS, cells[name])
    out = capsys.readouterr().out
    assert ": right." in out and out.endswith(f"It is not kept as yours: {words}.\n")
    assert not (tmp_path / "mine").exists()


def test_a_tree_is_whole_though_that_of_the_first_test_has_another_form(monkeypatch, tmp_path):
    name, tokens = "19_parsing.delinearize", "(S NN (VP VB (NP DT NN )NP )VP IN )S".split()
    source = Path(inspect.getsourcefile(solution_of(name))).read_text(encoding="utf-8")
    (tmp_path / f"{name}.py").write_text(f"{HEADER}delinearize\n\n{source}", encoding="utf-8")
    monkeypatch.setenv("MINITRANSFORMER_MINE", str(tmp_path))
    own = mine(name)
    assert own.__module__ == f"mine.{name}"
    assert own(tokens, [*"abcde"]) == solution_of(name)(tokens, [*"abcde"])


def test_wrong_functions_and_solutions_are_not_kept(cells, capsys, tmp_path):
    check(WEIGHTS, cells["wrong"])
    check(WEIGHTS, solution_of(WEIGHTS))
    assert "kept" not in capsys.readouterr().out and not (tmp_path / "mine").exists()


def test_a_function_that_uses_another_exercise_keeps_its_name_alone(kept, cells):
    names = {"earlier": mine(WEIGHTS), "stand_in": mine("03_softmax.softmax")}
    cells["my_weights"].__globals__.update(names)
    source = standalone_source(cells["uses_earlier"])
    assert f'from course import mine\n\nearlier = mine("{WEIGHTS}")\n\n' in source
    assert 'stand_in = mine("03_softmax.softmax")' in source and "class Scale" not in source


def test_a_guess_stands_beside_what_was_measured(cells, capsys, tmp_path, monkeypatch):
    guess("04.spread", measured=15.4)
    guess("04.spread", ...)
    guess("04.spread", 4)
    guess("04.spread", measured=np.float64(15.4))
    assert capsys.readouterr().out == "measured 15.4\nyou said 4; measured 15.4\n"
    assert (tmp_path / "mine" / "guesses.json").read_text() == '{\n "04.spread": 4\n}'
    monkeypatch.setenv("MINITRANSFORMER_MINE", "off")
    guess("04.rows", np.zeros(2))
    guess("04.rows", measured=3)
    assert capsys.readouterr().out == "you said [0., 0.]; measured 3\n"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.replace("* mask", "* 0.5"), "its function is wrong: "),
        (lambda text: text[: len(text) // 2], "it does not run ("),
        (lambda text: text.replace("version 1", "version 99"), "its first line is not that of this version"),
        (
            lambda text: text.replace("def my_weights", "def renamed"),
            "it does not define my_weights, as its first line",
        ),
        (lambda text: "", "its first line is not that of this version"),
        (lambda text: text + "\nraise SystemExit\n", "it does not run (SystemExit, "),
        (lambda text: text.replace("q, k, mask):\n", "q, k, mask):\n    q *= 2\n"), "changed its input q"),
        (
            lambda text: text.replace("q, k, mask):\n", "q, k, mask):\n    return ...\n"),
            "its function is not filled in\n",
        ),
    ],
)
def test_a_damaged_file_is_named_in_one_line_and_the_solution_stands_in(damage, words, kept, capsys):
    kept.write_text(damage(kept.read_text()))
    assert mine(WEIGHTS) is solution_of(WEIGHTS)
    out = capsys.readouterr().out
    assert out.startswith(f"{WEIGHTS}: not yours yet, the file in ") and words in out and out.count("\n") == 1
    progress.main([])
    assert f"{WEIGHTS}.py cannot be used: " in capsys.readouterr().out


def test_a_slow_function_is_yours_and_named(kept, capsys):
    kept.write_text(kept.read_text().replace("    scores = q @", "    for _ in range(1000):\n        scores = q @"))
    assert mine(WEIGHTS).__module__ == f"mine.{WEIGHTS}"
    assert re.fullmatch(rf"{WEIGHTS}: slow: \d+ times the solution's time\n", capsys.readouterr().out)


def test_the_hash_is_that_of_a_file_and_of_those_that_it_uses(kept):
    user = kept.with_name("04_attention.self_attention.py")
    user.write_text(f'{HEADER}f\n\nfrom course import mine\n\nweights = mine("{WEIGHTS}")\n')
    alone, both = source_hash([WEIGHTS]), source_hash(["04_attention.self_attention"])
    kept.write_text(kept.read_text() + "# changed\n")
    assert len({alone, both, source_hash([WEIGHTS]), source_hash(["04_attention.self_attention"])}) == 4


def test_a_deleted_file_is_not_yours_yet(kept, capsys):
    kept.unlink()
    assert mine(WEIGHTS) is solution_of(WEIGHTS)
    assert capsys.readouterr().out == f"{WEIGHTS}: not yours yet\n"


def test_nothing_is_kept_when_it_is_off_or_the_folder_is_a_file(cells, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("MINITRANSFORMER_MINE", "off")
    check(WEIGHTS, cells["my_weights"])
    assert "kept" not in capsys.readouterr().out and not (tmp_path / "mine").exists()
    assert progress.main([]) == 1
    monkeypatch.setenv("MINITRANSFORMER_MINE", __file__)
    check(WEIGHTS, cells["my_weights"])
    assert "It is not kept as yours: " in capsys.readouterr().out


def test_progress_counts_what_is_yours_and_reset_deletes_that_alone(kept, capsys):
    other = kept.with_name("notes.txt")
    other.write_text("mine, too")
    progress.main([])
    lines = capsys.readouterr().out.splitlines()
    assert "04_attention            1 of  5  weights" in lines
    assert len({line.index(" of ") for line in lines}) == 1  # longer names move no column
    progress.main(["--reset"])
    assert capsys.readouterr().out.endswith(": 1 functions.\n") and other.exists() and not kept.exists()


def test_the_folder_is_ignored_by_git():
    assert "/lessons/mine/" in (LESSONS.parent / ".gitignore").read_text().splitlines()
