"""SIGINT and SIGTERM as a wish that is granted at the next good moment."""

from __future__ import annotations

import signal
import threading


class StopRequest:
    """While entered, the first SIGINT or SIGTERM is only noted in ``signal``; the handlers from before come back after.

    A second one raises KeyboardInterrupt at once, for when the next good moment is too far away.
    Outside the main thread, where Python delivers no signals, nothing is changed.
    """

    def __init__(self):
        self.signal: int | None = None
        self._before: dict = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
