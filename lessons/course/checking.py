"""``check``: runs an exercise's tests on a student's function and reports the outcome in one paragraph."""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course.calls import NotFilledIn, StudentFunction, Trouble, error_text
from course.compare import kind, same
from course.differences import difference, in_other_order, malformed
from course.exercise import Exercise, find_exercise
from course.mine import keep

LONGEST = 2_000
"""A text of more characters is cut."""


@dataclass(frozen=True)
class Result:
    """What a check found. ``verdict`` is "right", "wrong" or "not yet"."""

    name: str
    verdict: str
    text: str

    def __str__(self) -> str:
        text = self.text if len(self.text) <= LONGEST else f"{self.text[:LONGEST]} ..."
        return textwrap.fill(f"{self.name}: {self.verdict}. {text}".rstrip(), width=110, break_long_words=False)


def check(name: str, function: Callable) -> None:
    """Test ``function`` as the exercise ``name``, print the result, and keep it if it is right.

    Nothing leaves this machine: right functions are files of ``lessons/mine/``.
    """
    result = examine(name, function)
    print(result)
    if result.verdict == "right" and (kept := keep(name, function)):
        print(kept)


def examine(name: str, function: Callable, seed: int | None = None) -> Result:
    """The result of an exercise's tests, on its usual inputs or on those of another seed."""
    if not isinstance(name, str):
        return Result("check", "wrong", 'The name comes first, as text: `check("04_attention.weights", my_weights)`.')
    try:
        exercise = find_exercise(name)
    except KeyError as error:
        return Result(name, "wrong", f"In `check`, {error.args[0]}.")
    if not callable(function):
        text = f"`check` needs the function itself, got {kind(function)}: write its name, without brackets."
        return Result(name, "wrong", text)
    student = StudentFunction(function, parameter_names(exercise, function), exercise.seconds, exercise.through)
    try:
        with np.errstate(all="ignore"):
            message = fault_of(exercise, student, exercise.cases(seed))
    except NotFilledIn:
        return Result(name, "not yet", "")
    except Trouble as trouble:
        message = str(trouble)
    except Exception as error:  # results come in more forms than the tests can foresee
        message = f"The tests could not use {kind(student.result)}, which the function returned: {error_text(error)}."
    return Result(name, "wrong", message) if message else Result(name, "right", f"Tested: {exercise.tested}.")


def parameter_names(exercise: Exercise, function: Callable) -> list[str]:
    """The names of the arguments, from the reference where there is one."""
    try:
        return list(inspect.signature(exercise.through(exercise.reference or function)).parameters)
    except Exception:  # compiled functions have none, and a class of the reader's own may answer with any error
        return [f"argument {i}" for i in range(20)]


def fault_of(exercise: Exercise, student: StudentFunction, cases: list[tuple]) -> str | None:
    """What is wrong, in words, or None."""
    if exercise.reference is not None:
        reference, rtol, names = exercise.through(exercise.reference), exercise.rtol, exercise.parts
        expected = [reference(*case) for case in cases]
        got = [student.called_with(case, form) for case, form in zip(cases, expected, strict=True)]
        wrong = [i for i in range(len(cases)) if not same(expected[i], got[i], rtol)]
        if wrong:
            called_with = student.arguments_text(cases[wrong[0]])
            wanted, given = [expected[i] for i in wrong], [got[i] for i in wrong]
            return (
                named_mistake(exercise, cases, got)
                or in_other_order(wanted, given, rtol, names)
                or malformed(wanted[0], given[0], called_with, rtol, names)
                or broken_property(exercise, student, cases)
                or difference(wanted, given, called_with, rtol, names)
            )
    return broken_property(exercise, student, cases)


def named_mistake(exercise: Exercise, cases: list[tuple], got: list) -> str | None:
    """The message of the first mistake that gives, on every input, what the student's function gave."""
    for mistake in exercise.mistakes:
        wrong = exercise.through(mistake.wrong)
        answers = [_attempt(wrong, case) for case in cases]
        if all(same(answer, value, exercise.rtol) for answer, value in zip(answers, got, strict=True)):
            return mistake.message
    return None


def _attempt(function: Callable, case: tuple) -> Any:
    """A mistake may well divide by zero: its answer then is what NumPy makes of that."""
    with np.errstate(all="ignore"):
        return function(*case)


def broken_property(exercise: Exercise, student: StudentFunction, cases: list[tuple]) -> str | None:
    """The message of the first property that does not hold."""
    messages = (holds(student, *case) for holds in exercise.properties for case in cases)
    return next((message for message in messages if message), None)
