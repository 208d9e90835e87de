"""``check`` answers every function, however bad, in one paragraph."""

import _thread
import builtins
import sys
import threading

import numpy as np
import pytest

from course import check
from course.checking import examine
from course.exercise import find_exercise, solution_of

split = solution_of("05_heads.split")
WEIGHTS = "04_attention.weights"


@pytest.fixture
def limit(monkeypatch):
    """Sets the time limit of the exercise WEIGHTS, in seconds."""
    return lambda seconds: monkeypatch.setitem(find_exercise(WEIGHTS).__dict__, "seconds", seconds)


def loops(q, k, mask):
    while True:
        try:
            len(q)
        except Exception:
            return None


def raises(q, k, mask):
    return np.zeros(3)[q.shape[0] + 5]


class Unprintable(Exception):
    def __str__(self):
        raise ValueError


def raising(error):
    def function(q, k, mask):
        raise error

    return function


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
    "ragged lists": (lambda q, k, mask: [[1.0], [2.0, 3.0]], "must be an array of shape (1, 3), got a list"),
    "a lost axis": (lambda q, k, mask: q @ k.T / (q @ k.T).sum(axis=-1), "keepdims=True loses its axis"),
    "no axis lost": (lambda q, k, mask: q + k, "(2, 4) and (3, 4) do not fit. It was called with q"),
    "a sum elsewhere": (
        lambda q, k, mask: (np.ones((2, 3)) * q.sum(axis=1)).sum(axis=0),
        "keepdims=True loses its axis",
    ),
    "no sum to blame": (lambda q, k, mask: (np.ones((2, 3)) * np.ones(2)).sum(axis=0), "makes a column of a vector"),
    "a vector that lies": (lambda q, k, mask: np.ones((2, 3)) + np.ones(2), "`[:, None]` makes a column of a vector."),
    "no transposition": (lambda q, k, mask: q @ k, "is a transposition missing, or one too many?"),
    "axes in front": (lambda q, k, mask: np.ones((4, 2, 3)) @ np.ones((2, 3, 2)), "must be equal, or 1: (4, 2, 3) and"),
    "text": (lambda q, k, mask: "weights", "got a str"),
    "shape": (lambda q, k, mask: np.zeros(3), "must have the shape (1, 3), got (3,)"),
    "NaN": (lambda q, k, mask: np.full(mask.shape, np.nan), "holds NaN"),
    "changed input": (lambda q, k, mask: q.fill(0.0), "changed its input q"),
    "exception": (raises, "raised IndexError"),
    "the line": (raises, "`return np.zeros(3)[q.shape[0] + 5]`"),
    "wrong parameters": (lambda q: q, "raised TypeError"),
    "exit": (lambda q, k, mask: sys.exit(3), "raised SystemExit: 3, in its line 1"),
    "Ctrl-C": (raising(KeyboardInterrupt()), "raised KeyboardInterrupt, in its line 2"),
    "no Exception": (raising(GeneratorExit()), "raised GeneratorExit"),
    "no input here": (raising(type("NoInput", (NotImplementedError,), {})()), "raised NoInput"),
    "an error without text": (raising(Unprintable()), "raised Unprintable, in its line 2"),
    "an error of many pages": (raising(ValueError("page\n" * 10_000)), "raised ValueError: page page"),
    "closed output": (closes_output, "is a `return` missing?"),
    "harm to NumPy": (deletes, "deleted or replaced numpy.allclose, builtins.zip; that was put back"),
    "a masked array": (lambda q, k, mask: np.ma.masked_array(mask * 1.0, mask), "got a MaskedArray"),
    "a matrix": (lambda q, k, mask: np.zeros(mask.shape).view(np.matrix), "got a matrix"),
    "infinite": (lambda q, k, mask: np.full(mask.shape, np.inf), "got [[inf, inf"),
    "not a function": (np.zeros((99, 99)), "needs the function itself, got an array of shape (99, 99)"),
}


@pytest.mark.parametrize(("function", "words"), BAD.values(), ids=BAD)
def test_a_bad_function_gets_one_paragraph(function, words):
    result = examine(WEIGHTS, function)
    assert result.verdict == "wrong"
    assert words in result.text
    assert "Traceback" not in str(result) and "\n\n" not in str(result) and len(str(result)) < 900
    assert examine(WEIGHTS, solution_of(WEIGHTS)).verdict == "right"


def as_lists(q, k, mask):
    return solution_of(WEIGHTS)(q, k, mask).tolist()


def gradients_in_an_array_of_objects(tape, n_values):
    found = np.zeros(n_values, dtype=object)
    found[:] = solution_of("02_tape.gradients")(tape, n_values)
    return found


def curve_as_lists(xs, ys):
    return [part.tolist() for part in solution_of("07_feed_forward.interpolation")(xs, ys)]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        (WEIGHTS, as_lists),
        ("05_heads.split", lambda *x: list(split(*x))),
        ("02_tape.order", lambda *x: np.array(solution_of("02_tape.order")(*x))),
        ("02_tape.gradients", gradients_in_an_array_of_objects),
        ("07_feed_forward.interpolation", curve_as_lists),
    ],
)
def test_lists_and_arrays_of_numbers_stand_for_each_other(name, function):
    assert examine(name, function).verdict == "right"


def test_a_curve_in_float32_is_right():
    parts = solution_of("07_feed_forward.interpolation")
    function = lambda xs, ys: [part.astype(np.float32) for part in parts(xs, ys)]  # noqa: E731
    assert examine("07_feed_forward.interpolation", function).verdict == "right"


def test_an_input_put_back_but_for_rounding_is_told_apart():
    def moved_and_put_back(f, x, h):
        x += h
        x -= h
        return solution_of("01_arrays.numerical_gradient")(f, x, h)

    text = examine("01_arrays.numerical_gradient", moved_and_put_back).text
    assert text.startswith("The function changed its input x. It was put back, but x + h - h need not be x.")


def test_an_axis_is_found_by_whatever_random_numbers_a_right_answer_draws():
    """It may ask which of all three axes is unchanged: of the two others none may look so by chance."""
    for seed in range(50):
        rng = np.random.default_rng(seed)

        def the_only_axis(norm, shape, rng=rng):
            def unchanged(x, line):
                return np.allclose(norm(x + rng.standard_normal(line)), norm(x), atol=1e-3)

            x = rng.standard_normal(shape)
            lines = [[1 if i == axis else n for i, n in enumerate(shape)] for axis in range(3)]
            (axis,) = (axis for axis in range(3) if unchanged(x, lines[axis]))
            return axis

        assert examine("06_layer_norm.normalized_axis", the_only_axis).verdict == "right", seed


def test_first_values_drawn_as_they_should_be_are_right_at_every_seed():
    name = "my_transformer.first_vector"
    assert {examine(name, solution_of(name), seed).verdict for seed in (84, 102, 186, 257)} == {"right"}


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
def test_an_odd_result_gets_one_paragraph(name, result, words):
    answer = examine(name, lambda *inputs: result)
    assert answer.verdict == "wrong"
    assert words in answer.text
    assert len(str(answer)) < 2_500


def test_what_a_function_prints_is_shown_up_to_a_limit(capsys):
    check(WEIGHTS, lambda q, k, mask: [print("scores", i) for i in range(10_000)])
    printed = capsys.readouterr().out
    assert printed.startswith("scores 0\nscores 1\n") and len(printed) < 6_000
    assert "[further output is not shown]\n04_attention.weights: wrong." in printed


def test_the_readers_own_interrupt_stops_the_function():
    stopped = threading.Event()

    def runs(q, k, mask):
        try:
            _thread.interrupt_main()
            loops(q, k, mask)
        finally:
            stopped.set()

    with pytest.raises(KeyboardInterrupt):
        examine(WEIGHTS, runs)
    assert stopped.wait(1.0)


def test_a_function_that_loops_for_ever_is_stopped(limit):
    limit(0.3)
    text = examine(WEIGHTS, loops).text
    assert "had not returned after 0.3 s" in text and "restart" not in text


def catches_all(q, k, mask):
    while True:
        try:
            np.linalg.norm(q)  # the exception that is to stop the loop is thrown in here
        except:  # noqa: E722
            continue


def test_a_bare_except_does_not_keep_a_loop_alive(limit, capsys):
    limit(0.1)
    before = threading.active_count()
    assert "restart" not in examine(WEIGHTS, catches_all).text
    assert threading.active_count() <= before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "function", [lambda q, k, mask: ..., lambda q, k, mask: (..., q), raising(NotImplementedError())]
)
def test_an_unfilled_exercise_says_not_yet(function):
    assert str(examine(WEIGHTS, function)) == "04_attention.weights: not yet."


def test_an_unknown_exercise_gets_the_nearest_names():
    assert WEIGHTS in examine("04_attention.wieghts", loops).text
    assert "01_arrays.centered" in examine("", loops).text and len(examine("", loops).text) < 300
