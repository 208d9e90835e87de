"""Calling a student's function: within a time limit, on copies, and with every failure reported in one paragraph."""

import builtins
import copy
import io
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
"""Arguments in a message about an exception, in characters: three lines."""
LOST_AXIS = (
    " A sum, mean or max without keepdims=True loses its axis, and then (2, 3) does not fit (2,): print the shapes of "
    "both sides of that line."
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
                f"The function had not come back after {self.seconds:g} s. Look for a loop whose condition never "
                f"becomes false{error}. It was called with {self.arguments_text(arguments)}."
            ) from None
        except Raised as raised:
            error = raised.__cause__
            if type(error) is NotImplementedError:  # not its children: a notebook without input raises one
                raise NotFilledIn from None
            if isinstance(error, Trouble):
                raise error from None
            raise Trouble(
                f"The function raised {error_text(error)}{_place(error, self.function)}."
                f"{LOST_AXIS if 'could not be broadcast' in error_text(error) else ''} "
                f"It was called with {self.arguments_text(arguments, LONGEST)}."
            ) from None
        for name, before, after in zip(self.names, arguments, given, strict=False):
            if isinstance(before, COMPARED) and not same(before, after, rtol=0.0):
                raise Trouble(
                    f"The function changed its input {name}. An array belongs to the caller: write `y = x + 1` where "
                    f"`x += 1` stands, or work on `x.copy()`. It was called with {self.arguments_text(arguments)}."
                )
        if is_unfilled(result):
            raise NotFilledIn
        return in_form_of(self.form, result)

    def called_with(self, arguments: Sequence[Any], expected: Any) -> Any:
        """The result, whose lists and arrays are taken for each other as ``expected`` has them, now and later."""
        self.form = expected
        return self(*arguments)

    def arguments_text(self, arguments: Sequence[Any], longest: int | None = None) -> str:
        """The arguments in words, by name; where they would be too long, arrays by their shapes."""
        pairs = list(zip(self.names, arguments, strict=False))
        text = ", ".join(f"{name} = {describe(value)}" for name, value in pairs)
        if longest is None or len(text) <= longest:
            return text
        text = ", ".join(f"{name} = {kind(value) if np.ndim(value) else describe(value)}" for name, value in pairs)
        return text if len(text) <= longest else f"{text[:longest]} ..."


def is_unfilled(result: Any) -> bool:
    """Whether it is the ``...`` of an exercise that waits."""
    return result is ... or result is NotImplemented or (isinstance(result, tuple) and any(x is ... for x in result))


def called_with_care(call: Callable[[], Any], seconds: float) -> Any:
    """The result of ``call()``, which calls functions of the student's.

    Raises:
        Trouble: it did not come back, or raised; the text says where.
    """
    try:
        with _kept_from_harm(_Prints(), _Prints()):
            return within(seconds, call)
    except TimeoutError as error:
        raise Trouble(f"It had not come back after {seconds:g} s{error}.") from None
    except Raised as raised:
        error = raised.__cause__
        if isinstance(error, (Trouble, NotFilledIn)):
            raise error from None
        if type(error) is NotImplementedError:  # not its children: a notebook without input raises one
            raise NotFilledIn from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise Trouble(f"{error_text(error)}, raised in {last.name}{last.line and f', `{last.line}`'}.") from None


def _place(error: BaseException, function: Callable) -> str:
    """The last line of the student's own code that the error came through."""
    code = getattr(function, "__code__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    if not frames:
        return ""
    return f", in its line {frames[-1].lineno - code.co_firstlineno + 1}, `{frames[-1].line}`"


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
