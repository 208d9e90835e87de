"""Calling a student's function: within a time limit, on copies, and with every failure reported in one paragraph."""

import builtins
import copy
import io
import linecache
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

import numpy as np

from course.compare import NUMBERS, describe, in_form_of, kind, same
from course.limits import Raised, within

COMPARED = (*NUMBERS, str, tuple, list, dict)
"""Arguments of these types are looked at after the call: did the function change them?"""
PRINTED = 5_000
"""What a function prints in one check is shown up to so many characters."""
LONGEST = 300
"""Arguments in a message, in characters: three lines."""
LOST_AXIS = (
    " A sum, mean or max without keepdims=True loses its axis, and then (2, 3) does not fit (2,): print the shapes of "
    "both sides of that line."
)
TRANSPOSED = (
    " In `a @ b` the last axis of a must be as long as the last but one of b: is a transposition missing, or one too "
    "many?"
)
SHARED = (np, builtins)
"""Modules whose names are put back if a function deletes or replaces them: all later checks need them."""


class Trouble(Exception):
    """The function could not be judged; the text says why, in a sentence or two."""


class NotFilledIn(Exception):
    """The exercise still returns ``...``."""


class StudentFunction:
    """The student's function, made safe: fresh copies of the arguments, one time limit for all calls."""

    def __init__(
        self,
        function: Callable,
        names: Sequence[str],
        seconds: float,
        through: Callable[[Callable], Callable] = lambda function: function,
    ):
        self.function, self.names, self.seconds, self._called = function, names, seconds, through(function)
        self._began = time.process_time()
        self.result: Any = None
        self.form: Any = None
        self._prints = _Prints(), _Prints()

    def __call__(self, *arguments: Any) -> Any:
        given = copy.deepcopy(arguments)
        try:
            with _kept_from_harm(*self._prints):
                left = self.seconds - (time.process_time() - self._began)
                result = self.result = within(left, lambda: self._called(*given))
        except TimeoutError as error:
            raise Trouble(
                f"The function had not returned after {self.seconds:g} s. Look for a loop whose condition never "
                f"becomes false{error}. It was called with {self.arguments_text(arguments)}."
            ) from None
        except Raised as raised:
            error = raised.__cause__
            if type(error) is NotImplementedError:  # not its children: a notebook without input raises one
                raise NotFilledIn from None
            if isinstance(error, Trouble):
                raise error from None
            raise Trouble(
                f"The function raised {error_text(error)}{_place(error, self.function)}.{_hint(error, self.function)} "
                f"It was called with {self.arguments_text(arguments)}."
            ) from None
        for name, before, after in zip(self.names, arguments, given, strict=False):
            if isinstance(before, COMPARED) and not same(before, after, rtol=0.0):
                rounded = " It was put back, but x + h - h need not be x." if same(before, after, rtol=1e-9) else ""
                raise Trouble(
                    f"The function changed its input {name}.{rounded} It belongs to the caller: write `y = x + 1` "
                    "where `x += 1` stands, or work on `x.copy()`. It was called with "
                    f"{self.arguments_text(arguments)}."
                )
        if is_unfilled(result):
            raise NotFilledIn
        return in_form_of(self.form, result)

    def called_with(self, arguments: Sequence[Any], expected: Any) -> Any:
        """The result, whose lists and arrays are taken for each other as ``expected`` has them, now and later."""
        self.form = expected
        return self(*arguments)

    def arguments_text(self, arguments: Sequence[Any]) -> str:
        """The arguments in words, by name; where they would be too long, the longest by their kinds and shapes."""
        words = [(name, describe(value), kind(value)) for name, value in zip(self.names, arguments, strict=False)]
        texts = {name: f"{name} = {value}" for name, value, _ in words}
        for name, value, short in sorted(words, key=lambda each: -len(each[1])):
            if sum(map(len, texts.values())) > LONGEST and len(short) < len(value):
                texts[name] = f"{name} = {short}"
        text = ", ".join(texts.values())
        return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def is_unfilled(result: Any) -> bool:
    """Whether it is the ``...`` of an exercise that waits."""
    return result is ... or result is NotImplemented or (isinstance(result, tuple) and any(x is ... for x in result))


def called_with_care(call: Callable[[], Any], seconds: float) -> Any:
    """The result of ``call()``, which calls functions of the student's.

    Raises:
        Trouble: it did not return, or raised; the text says where.
    """
    try:
        with _kept_from_harm(_Prints(), _Prints()):
            return within(seconds, call)
    except TimeoutError as error:
        raise Trouble(f"It had not returned after {seconds:g} s{error}.") from None
    except Raised as raised:
        error = raised.__cause__
        if isinstance(error, (Trouble, NotFilledIn)):
            raise error from None
        if type(error) is NotImplementedError:  # not its children: a notebook without input raises one
            raise NotFilledIn from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise Trouble(f"{error_text(error)}, raised in {last.name}{last.line and f', `{last.line}`'}.") from None


def _line(error: BaseException, function: Callable) -> traceback.FrameSummary | None:
    """The last line of the student's own code that the error came through."""
    code = getattr(function, "__code__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    return frames[-1] if frames else None


def _place(error: BaseException, function: Callable) -> str:
    """Which line raised it: of the function itself by number, of a helper in the same cell by the helper's name."""
    if not (line := _line(error, function)):
        return ""
    first = function.__code__.co_firstlineno
    last = max(number or first for *_, number in function.__code__.co_lines())
    return f", in {f'its line {line.lineno - first + 1}' if first <= line.lineno <= last else line.name}, `{line.line}`"


def _hint(error: BaseException, function: Callable) -> str:
    """What two shapes that do not fit often mean: an axis that a sum lost, a vector that lies, a missing transpose."""
    text, line = error_text(error), _line(error, function)
    if "mismatch in its core dimension" in text:
        return TRANSPOSED
    if "could not be broadcast" not in text:
        return ""
    if line and re.search(r"\b(sum|mean|max|min)\(", part := _failing_part(line)) and "keepdims" not in part:
        return LOST_AXIS
    shapes = [tuple(map(int, filter(None, sizes.split(",")))) for sizes in re.findall(r"\(([\d,]+)\)", text)][:2]
    if "remapped" in text:  # both have axes in front of those of the product
        return f" In `a @ b` the axes in front of the last two must be equal, or 1: {_joined(shapes)} do not fit."
    column = " `[:, None]` makes a column of a vector." if min(map(len, shapes), default=0) == 1 else ""
    return f" NumPy compares shapes from the right: {_joined(shapes)} do not fit.{column}"


def _failing_part(frame: traceback.FrameSummary) -> str:
    """The expression that failed: another one of its line may hold a sum that is not to blame."""
    line = linecache.getline(frame.filename, frame.lineno)
    whole = frame.colno is None or frame.end_lineno != frame.lineno
    return line if whole else line.encode()[frame.colno : frame.end_colno].decode(errors="ignore")


def _joined(shapes: list[tuple]) -> str:
    return " and ".join(map(str, shapes)) or "these"


def error_text(error: BaseException) -> str:
    """Kind and message of an exception; a message may be missing, as long as a book, or raise an error itself."""
    try:
        text = " ".join(str(error)[:400].split())
    except Exception:
        text = ""
    return f"{type(error).__name__}{text and f': {text}'}"


class _Prints(io.TextIOBase):
    """Stands where ``sys.stdout`` stood: passes on what is printed, up to a limit, and does not close it."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.left = PRINTED

    def write(self, text: str) -> int:
        if self.stream is not None and self.left >= 0:
            self.left -= len(text)
            self.stream.write(text if self.left >= 0 else f"{text[: self.left]}\n[further output is not shown]\n")
        return len(text)

    def flush(self) -> None:
        if self.stream is not None:
            self.stream.flush()

    def close(self) -> None:
        pass


@contextmanager
def _kept_from_harm(out: _Prints, err: _Prints) -> Iterator[None]:
    """Whatever the function does to the streams and to ``SHARED`` is undone.

    Raises:
        Trouble: it deleted or replaced names of NumPy or Python.
    """
    out.stream, err.stream = sys.stdout, sys.stderr
    names, harmed = [(module, dict(module.__dict__)) for module in SHARED], []
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        for module, before in names:  # no builtin function is called until all are back
            now = module.__dict__
            harmed += [f"{module.__name__}.{name}" for name in before if now.get(name, names) is not before[name]]
            now.update(before)
    if harmed:
        raise Trouble(f"The function deleted or replaced {', '.join(harmed[:3])}; that was put back.")
