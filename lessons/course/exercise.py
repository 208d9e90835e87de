"""What an exercise is: inputs to try, the right answer, and the mistakes that have a name."""

import difflib
import importlib.util
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

LESSONS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mistake:
    """A mistake that has a name. ``wrong`` is the exercise solved with it, of the solution's signature."""

    message: str
    wrong: Callable


@dataclass(frozen=True)
class Exercise:
    """One function to fill in.

    Attributes:
        name: the notebook's name, a dot, the name of the solution: ``04_attention.weights``.
        inputs: from a random generator to the argument tuples to try, smallest first: the first that fails is shown.
            An argument may be anything; arrays are float64.
        reference: the right answer for such arguments, from the engine or in closed form; its parameter names are
            used in messages. ``None``: properties alone decide.
        tested: what a right answer was tested on, in words.
        mistakes: compared with what the student returns, on all inputs.
        properties: each ``(function, *arguments) -> message | None`` may call the student's function as it likes and
            returns what is wrong; they are asked after the mistakes.
        seconds: time limit of all calls together.
        rtol: relative tolerance of numbers.
        through: from a function of the solution's signature, one of ``inputs`` whose result can be compared: where a
            solution takes and gives objects, their data and gradients.
        parts: names of the parts of a result that is a tuple; messages tell which of them are right.
    """

    name: str
    inputs: Callable[[np.random.Generator], Iterable[tuple]]
    reference: Callable | None
    tested: str
    mistakes: tuple[Mistake, ...] = ()
    properties: tuple[Callable[..., str | None], ...] = ()
    seconds: float = 5.0
    rtol: float = 1e-6
    through: Callable[[Callable], Callable] = lambda function: function
    parts: tuple[str, ...] = ()

    def cases(self, seed: int | None = None) -> list[tuple]:
        """The argument tuples: those of a seed, or the usual ones, the same at every call."""
        return list(self.inputs(np.random.default_rng(zlib.crc32(self.name.encode()) if seed is None else seed)))


def module_of(lesson: str) -> str:
    """The module of a notebook: ``lesson_04`` for ``04_attention``, and ``bug_zoo`` for itself."""
    return f"lesson_{lesson[:2]}" if lesson[:2].isdigit() else lesson


def module_at(path: Path) -> ModuleType:
    """The module of a file, made anew."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exercises_of(lesson: str) -> dict[str, Exercise]:
    """The exercises of the notebook ``04_attention``, by their full names."""
    exercises = importlib.import_module(f"course.exercises.{module_of(lesson)}").EXERCISES
    return {exercise.name: exercise for exercise in exercises}


def find_exercise(name: str) -> Exercise:
    """Raises KeyError, with the nearest names, if there is no exercise of this name."""
    lesson = str(name).partition(".")[0]
    known = exercises_of(lesson) if lesson in lessons_with_exercises() else all_exercises()
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.3) or list(known)[:5]
        raise KeyError(f"there is no exercise {name!r}; the nearest are {', '.join(near)}")
    return known[name]


def lessons_with_exercises() -> list[str]:
    """Notebooks in order that have a module of exercises."""
    folder = Path(__file__).parent / "exercises"
    stems = sorted(path.stem for path in LESSONS.glob("*.ipynb"))
    return [stem for stem in stems if (folder / f"{module_of(stem)}.py").exists()]


def all_exercises() -> dict[str, Exercise]:
    """Every exercise of the course, by its full name."""
    return {name: each for lesson in lessons_with_exercises() for name, each in exercises_of(lesson).items()}


def solution_of(name: str) -> Callable:
    """The solution of an exercise: the function of its name in ``solutions/``."""
    lesson, _, function = name.partition(".")
    return getattr(importlib.import_module(f"solutions.{module_of(lesson)}"), function)
