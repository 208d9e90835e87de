"""Calling a student's function: within a time limit, on copies, and with every trouble told in one paragraph."""

from __future__ import annotations

import contextvars
import copy
import ctypes
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course.compare import NUMBERS, describe, same

COMPARED = (*NUMBERS, str, tuple, list, dict)
"""Arguments of these types are looked at after the call: did the function change them?"""


class Trouble(Exception):
    """The function could not be judged; the text says why, in a sentence or two."""


class NotFilledIn(Exception):
    """The exercise still returns ``...``."""


class _TimeIsUp(BaseException):
    """Thrown into a thread that is to stop; no ``except Exception`` holds it."""


class StudentFunction:
    """The student's function, made safe: fresh copies of the arguments, one time limit for all calls."""

    def __init__(self, function: Callable, names: Sequence[str], seconds: float):
        self.function, self.names, self.seconds = function, names, seconds
        self._stop_at = time.monotonic() + seconds

    def __call__(self, *arguments: Any) -> Any:
        given = copy.deepcopy(arguments)
        try:
            result = _within(self._stop_at - time.monotonic(), lambda: self.function(*given))
        except TimeoutError:
            raise Trouble(
                f"The function had not come back after {self.seconds:g} s. Look for a loop whose condition never "
                f"becomes false. It was called with {self.told(arguments)}."
            ) from None
        except NotImplementedError:
            raise NotFilledIn from None
        except (Exception, SystemExit) as error:
            raise Trouble(
                f"The function raised {type(error).__name__}: {error}{_place(error, self.function)}. "
                f"It was called with {self.told(arguments)}."
            ) from None
        for name, before, after in zip(self.names, arguments, given, strict=False):
            if isinstance(before, COMPARED) and not same(before, after, rtol=0.0):
                raise Trouble(
                    f"The function changed its input {name}. An array belongs to the caller: write `y = x + 1` where "
                    f"`x += 1` stands, or work on `x.copy()`. It was called with {self.told(arguments)}."
                )
        if _unfilled(result):
            raise NotFilledIn
        return result

    def told(self, arguments: Sequence[Any]) -> str:
        """The arguments in words, by name."""
        return ", ".join(f"{name} = {describe(value)}" for name, value in zip(self.names, arguments, strict=False))


def _unfilled(result: Any) -> bool:
    return result is ... or result is NotImplemented or (isinstance(result, tuple) and any(x is ... for x in result))


def _place(error: BaseException, function: Callable) -> str:
    """The last line of the student's own code that the error came through."""
    code = getattr(function, "__code__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    if not frames:
        return ""
    return f", in its line {frames[-1].lineno - code.co_firstlineno + 1}, `{frames[-1].line}`"


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of ``call()``, run in a thread so that the wait ends in time on every system, in notebooks too.

    Raises:
        TimeoutError: it had not come back; the thread is told to stop.
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

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join(max(seconds, 0.01))
    if thread.is_alive():
        _stop(thread)
        raise TimeoutError
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def _stop(thread: threading.Thread) -> None:
    """Throw into the thread until it ends; a bare ``except`` may catch the first."""
    for _ in range(20):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_TimeIsUp))
        thread.join(0.05)
        if not thread.is_alive():
            return
