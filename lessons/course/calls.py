"""Calling a student's function: within a time limit, on copies, and with every failure reported in one paragraph."""

import builtins
import contextvars
import copy
import ctypes
import io
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

import numpy as np

from course.compare import NUMBERS, describe, same

COMPARED = (*NUMBERS, str, tuple, list, dict)
"""Arguments of these types are looked at after the call: did the function change them?"""
PRINTED = 5_000
"""What a function prints in one check is shown up to so many characters."""
SHALLOW = 300
"""In a deeper recursion the second way to stop a thread would have no room left on the stack."""
SHARED = (np, builtins)
"""Modules whose names are put back if a function deletes or replaces them: all later checks need them."""


class Trouble(Exception):
    """The function could not be judged; the text says why, in a sentence or two."""


class NotFilledIn(Exception):
    """The exercise still returns ``...``."""


class _TimeIsUp(BaseException):
    """Thrown into a thread that is to stop; no ``except Exception`` holds it."""


class _TimeIsReallyUp(_TimeIsUp):
    """A bare ``except`` does not hold this one: a trace, as a debugger sets it, raises on the handler's first line."""

    def __init__(self) -> None:
        sys.settrace(_raise_again)
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals is not globals():  # the frames above this module's own
            frame.f_trace = _raise_again
            frame = frame.f_back


def _raise_again(frame: Any, event: str, argument: Any) -> Callable:
    if event != "line":  # raised at the event of an exception, it would be caught with that one (from Python 3.12 on)
        return _raise_again
    raise _TimeIsReallyUp


class _Raised(Exception):
    """The function raised its cause, of whatever kind: the reader's own Ctrl-C is none of these."""


class StudentFunction:
    """The student's function, made safe: fresh copies of the arguments, one time limit for all calls."""

    def __init__(self, function: Callable, names: Sequence[str], seconds: float):
        self.function, self.names, self.seconds = function, names, seconds
        self._stop_at = time.monotonic() + seconds
        self.result: Any = None
        self._prints = _Prints(), _Prints()

    def __call__(self, *arguments: Any) -> Any:
        given = copy.deepcopy(arguments)
        try:
            with _kept_from_harm(*self._prints):
                result = self.result = _within(self._stop_at - time.monotonic(), lambda: self.function(*given))
        except TimeoutError as error:
            raise Trouble(
                f"The function had not come back after {self.seconds:g} s. Look for a loop whose condition never "
                f"becomes false{error}. It was called with {self.arguments_text(arguments)}."
            ) from None
        except _Raised as raised:
            error = raised.__cause__
            if type(error) is NotImplementedError:  # not its children: a notebook without input raises one
                raise NotFilledIn from None
            raise Trouble(
                f"The function raised {error_text(error)}{_place(error, self.function)}. "
                f"It was called with {self.arguments_text(arguments)}."
            ) from None
        for name, before, after in zip(self.names, arguments, given, strict=False):
            if isinstance(before, COMPARED) and not same(before, after, rtol=0.0):
                raise Trouble(
                    f"The function changed its input {name}. An array belongs to the caller: write `y = x + 1` where "
                    f"`x += 1` stands, or work on `x.copy()`. It was called with {self.arguments_text(arguments)}."
                )
        if is_unfilled(result):
            raise NotFilledIn
        return result

    def arguments_text(self, arguments: Sequence[Any]) -> str:
        """The arguments in words, by name."""
        return ", ".join(f"{name} = {describe(value)}" for name, value in zip(self.names, arguments, strict=False))


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
            return _within(seconds, call)
    except TimeoutError as error:
        raise Trouble(f"It had not come back after {seconds:g} s{error}.") from None
    except _Raised as raised:
        error = raised.__cause__
        if isinstance(error, (Trouble, NotFilledIn)):
            raise error from None
        if type(error) is NotImplementedError:  # not its children: a notebook without input raises one
            raise NotFilledIn from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise Trouble(f"{error_text(error)}, raised in {last.name}, `{last.line}`.") from None


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


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of ``call()``, run in a thread so that the wait ends in time on every system, in notebooks too.

    Raises:
        TimeoutError: it had not come back; the thread is told to stop.
        _Raised: ``call`` raised the cause of this.
    """
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            with np.errstate(all="ignore"):
                outcome["result"] = call()
        except _TimeIsUp:
            pass
        except BaseException as error:
            outcome["error"] = error
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    try:
        thread.start()
        thread.join(max(seconds, 0.01))
    finally:  # also when the reader interrupts the wait
        late = thread.is_alive()
        stopped = not late or _stop(thread)
    if late:
        raise TimeoutError("" if stopped else "; it could not be stopped and still runs, so restart the kernel")
    if "error" in outcome:
        raise _Raised from outcome["error"]
    return outcome["result"]


def _stop(thread: threading.Thread) -> bool:
    """Throw into the thread until it ends. Whether it ended."""
    for kind in (_TimeIsUp,) * 6 + (_TimeIsReallyUp,) * 6:
        if kind is _TimeIsUp or _depth(thread) < SHALLOW:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(kind))
        thread.join(0.08)
        if not thread.is_alive():
            return True
    return False


def _depth(thread: threading.Thread) -> int:
    frame, depth = sys._current_frames().get(thread.ident), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
