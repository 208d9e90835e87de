"""Files as ``check`` keeps a student's functions."""

from course.exercise import module_of
from course.mine import HEADER


def kept_file(name: str, lines: str = "f = right\n") -> str:
    """A file of the exercise ``name``, whose function f is made by ``lines``; they may use ``right``, the solution."""
    lesson, _, function = name.partition(".")
    return f"{HEADER}f\n\nfrom solutions.{module_of(lesson)} import {function} as right\n\n{lines}"
