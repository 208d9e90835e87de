"""A time limit that ends a call on every system: the thread that runs it is told to stop."""

import contextvars
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CLOCK_FACTOR = 5
"""A function may wait on the clock for so many times the processor time that it may use."""
SHALLOW = 300
"""In a deeper recursion the second way to stop a thread would have no room left on the stack."""


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


class Raised(Exception):
    """The function raised its cause, of whatever kind: the reader's own Ctrl-C is none of these."""


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of ``call()``, run in a thread so that the wait ends in time on every system, in notebooks too.

    ``seconds`` are of this process's time on the processor; a call that only waits is given more, by the clock.

    Raises:
        TimeoutError: it had not returned; the thread is told to stop.
        Raised: ``call`` raised the cause of this.
    """
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            try:
                with np.errstate(all="ignore"):
                    outcome["result"] = call()
            except BaseException as error:
                outcome["error"] = error
            finally:
                sys.settrace(None)
        except _TimeIsUp:  # thrown once more, it may arrive when the call has been left
            pass

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    try:
        thread.start()
        seconds = max(seconds, 0.01)
        processor_stop, clock_stop = time.process_time() + seconds, time.monotonic() + CLOCK_FACTOR * seconds
        while thread.is_alive() and time.process_time() < processor_stop and time.monotonic() < clock_stop:
            thread.join(min(seconds, 0.05))
    finally:  # also when the reader interrupts the wait
        late = thread.is_alive()
        stopped = not late or _stop(thread)
    if late:
        raise TimeoutError("" if stopped else "; it could not be stopped and still runs, so restart the kernel")
    if "error" in outcome:
        raise Raised from outcome["error"]
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
