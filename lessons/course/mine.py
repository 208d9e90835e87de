"""``mine``: the student's own functions, kept when they are right, for the models of later lessons.

Each is a file of ``lessons/mine/``: its source with all that it needs. ``MINITRANSFORMER_MINE`` names another folder,
or is "off". Solutions filled into a notebook are defined elsewhere and are never kept.
"""

import hashlib
import linecache
import os
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from course.calls import NotFilledIn, Trouble, called_with_care
from course.exercise import LESSONS, Exercise, find_exercise, solution_of
from course.own_source import KEPT, NOTEBOOK, NotKept, names_of, standalone_source
from course.slowness import slowness

FOLDER = "MINITRANSFORMER_MINE"
HEADER = "# minitransformer, kept by version 1: "
"""How a file begins; the name of the function follows."""
SECONDS = 5.0
"""Time limit of a file's own lines; the tests of its function have theirs."""
_judged: dict[tuple[str, str], tuple[Callable | None, str]] = {}
"""By exercise and text of its file: the function, if it is right, else what is wrong."""


class Unusable(Exception):
    """A file that holds no right function; the text says why, in one line."""


def folder() -> Path | None:
    """Where functions are kept, or None."""
    named = os.environ.get(FOLDER, "")
    return None if named == "off" else Path(named or LESSONS / "mine")


def keep(name: str, function: Callable) -> str:
    """Keep a right function and say so in a sentence; nothing if it is not one of the notebook's own."""
    place = folder()
    if place is None or getattr(function, "__module__", None) != NOTEBOOK or names_of(function) is None:
        return ""
    try:
        if function.__name__ == "<lambda>":
            raise NotKept("a function to keep is written with `def`")
        text = f"{HEADER}{function.__name__}\n\n{standalone_source(function)}"
        judged(name, text)
        place.mkdir(parents=True, exist_ok=True)
        part = place / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(place / f"{name}.py")
    except (NotKept, Unusable, OSError) as error:
        return f"It is not kept as yours: {error}."
    return "It is kept as yours."


def judged(name: str, text: str) -> Callable:
    """The function in the text of a file, after all of its exercise's tests.

    Raises:
        Unusable: the text is damaged, of another version, or its function is not right (any more).
    """
    if (name, text) not in _judged:
        try:
            _judged[name, text] = _right_function(name, text), ""
        except Unusable as error:
            _judged[name, text] = None, str(error)
    function, fault = _judged[name, text]
    if function is None:
        raise Unusable(fault)
    return function


def _right_function(name: str, text: str) -> Callable:
    from course.checking import examine  # which keeps what is right

    first, _, _ = text.partition("\n")
    if not first.startswith(HEADER):
        raise Unusable("its first line is not that of this version")
    names, file = {"__name__": f"{KEPT}.{name}"}, f"{name}.py"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # messages show its lines
    try:  # whatever somebody wrote into the file
        code = compile(text, file, "exec")
        called_with_care(lambda: exec(code, names), SECONDS)
    except (SyntaxError, ValueError, Trouble, NotFilledIn) as error:
        raise Unusable(f"it does not run ({type(error).__name__}: {error})".replace("Trouble: ", "")) from None
    wanted = first.removeprefix(HEADER).strip()
    if wanted not in names:
        raise Unusable(f"it does not define {wanted}, as its first line says")
    result = examine(name, names[wanted])
    if result.verdict != "right":
        what = f"wrong: {result.text.splitlines()[0]}" if result.text else "not filled in"
        raise Unusable(f"its function is {what}"[:300])
    return with_arrays(names[wanted], find_exercise(name))


def with_arrays(function: Callable, exercise: Exercise) -> Callable:
    """The function, with arrays where it gives lists and the right answer has arrays: what calls it computes on."""
    if exercise.reference is None or exercise.through is not Exercise.through:
        return function
    form = exercise.reference(*exercise.cases()[0])

    def as_form(right: Any, own: Any) -> Any:
        if isinstance(right, tuple):  # other inputs may give more parts
            return tuple(map(as_form, right, own)) if isinstance(own, (list, tuple)) and len(own) == len(right) else own
        return np.array(own) if isinstance(right, np.ndarray) and isinstance(own, (list, tuple)) else own

    return wraps(function)(lambda *inputs, **named: as_form(form, function(*inputs, **named)))


def kept(name: str) -> Callable | None:
    """The student's own function, or None if there is none.

    Raises:
        Unusable: there is a file, and no right function in it.
    """
    place = folder()
    if place is None or not (place / f"{name}.py").exists():
        return None
    try:
        return judged(name, (place / f"{name}.py").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"it cannot be read ({error})") from None


def mine(name: str) -> Callable:
    """Your own function of an exercise, checked again; without one the solution.

    It says in one line what is not yours yet, what is wrong with a file that cannot be used, and what is slow.
    """
    function, fault = own_or_solution(name)
    if remark := fault or slowness(name, function):
        print(f"{name}: {remark}")
    return function


def own_or_solution(name: str) -> tuple[Callable, str]:
    """The function, and if it is not the student's own, why."""
    find_exercise(name)  # which there must be
    try:
        if function := kept(name):
            return function, ""
        fault = "not yours yet"
    except Unusable as error:
        fault = f"not yours yet, the file in {folder()} cannot be used: {error}"
    return solution_of(name), fault


def source_hash(names: Sequence[str]) -> str:
    """SHA-256 of the kept files of these exercises and of those that they use, with their names, in their order."""
    texts, to_read = {}, list(names)
    while to_read:
        path = folder() / f"{to_read.pop()}.py"
        if path.stem not in texts and path.exists():
            texts[path.stem] = path.read_bytes()
            to_read += re.findall(rf'= {KEPT}\("([^"]+)"\)', texts[path.stem].decode(errors="replace"))
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(f"{name}\n".encode() + texts[name])
    return digest.hexdigest()
