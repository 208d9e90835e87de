"""The verdicts of a notebook: what its cells print is compared with what they mean."""

import re

import numpy as np
import pytest

from course import check, check_gradient, transplant
from course.verdicts import unmeant_verdicts
from minitransformer.ops.softmax import softmax_backward, softmax_forward

NAMES = {
    "check": check,
    "check_gradient": check_gradient,
    "transplant": transplant,
    "x": np.arange(3.0),
    "forward": softmax_forward,
    "backward": softmax_backward,
    "doubled": lambda grad_y, saved: (2.0 * grad_y,),
    "without_tuple": lambda grad_y, saved: grad_y,
    "waiting": lambda grad_y, saved: ...,
    "solution": lambda grad_y, saved: (grad_y * saved[0] * (1.0 - saved[0]),),
}
RIGHT, WRONG, WRONG_FORM, WAITING = (
    f"check_gradient((forward, {name}), x)\n" for name in ("backward", "doubled", "without_tuple", "waiting")
)
SOLVED, MISSED, UNSOLVED = (
    f'check("02_tape.sigmoid_backward", {name})\n' for name in ("solution", "doubled", "waiting")
)
NO_INPUTS, NO_RULE = "check_gradient((forward, backward))", "check_gradient(forward, x)"
LOOP = f"for n in (1, 2):\n    print('pass', n, end='  ')\n    {RIGHT}"
AS_MEANT = [
    (RIGHT, ""),
    (RIGHT + RIGHT, ""),
    ("print('Guess: right or wrong?')", ""),
    (WRONG, "expects-wrong"),
    (WRONG_FORM, "expects-wrong"),
    (RIGHT + WRONG, "expects-right-wrong"),
    (LOOP, "expects-right-right"),
    ('transplant("01_arrays")', ""),
]
NOT_AS_MEANT = [
    *((source, "") for source in (WRONG, WRONG_FORM, WAITING, NO_INPUTS, NO_RULE, RIGHT + WRONG, LOOP)),
    *((source, "expects-wrong") for source in (RIGHT, WAITING, NO_RULE, RIGHT + WRONG, WRONG + WRONG, "x")),
    (WRONG + RIGHT, "expects-right-wrong"),
    (WRONG, "expect-wrong"),
    ('transplant("10_subwords")', ""),
    (RIGHT, "expects-rihgt"),
]


def faults(source: str, tag: str, solved: bool, capsys) -> list[str]:
    """What is wrong in a notebook of a text and one cell with this source."""
    exec(source, dict(NAMES))
    outputs = [{"output_type": "stream", "text": capsys.readouterr().out}]
    text = {"cell_type": "markdown", "metadata": {}, "source": "and now it says: right"}
    code = {"cell_type": "code", "metadata": {"tags": ["other", tag]}, "source": source, "outputs": outputs}
    return unmeant_verdicts([text, code], solved)


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize(("source", "tag"), AS_MEANT)
def test_a_cell_may_print_the_verdicts_that_it_means(source, tag, solved, capsys):
    assert faults(source, tag, solved, capsys) == []


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize(("source", "tag"), NOT_AS_MEANT)
def test_a_cell_must_print_no_other_verdicts(source, tag, solved, capsys):
    (fault,) = faults(source, tag, solved, capsys)
    assert re.match(r"cell 1 \(counted from 0\) must say [a-z, ]+; it says:[ \n]", fault)


@pytest.mark.parametrize(("source", "means"), [(SOLVED, True), (MISSED, None), (UNSOLVED, False)])
def test_an_exercise_is_right_once_it_is_solved_and_waits_before(source, means, capsys):
    for solved in (True, False):
        assert bool(faults(source, "", solved, capsys)) == (solved is not means)
