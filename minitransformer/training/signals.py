"""SIGINT, SIGTERM and SIGHUP as a wish that is granted at the next good moment."""

import signal
import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """How a run ended: after ``update`` updates in all; ``signal`` is the number of the signal that stopped it."""

    update: int
    signal: int | None = None

    @property
    def exit_status(self) -> int:
        """0 when all updates are done, else what shells expect: 128 + its number, 130 after SIGINT."""
        return 0 if self.signal is None else 128 + self.signal


class StopRequest:
    """While entered, the first SIGINT, SIGTERM or SIGHUP is only noted in ``signal``; then the old handlers come back.

    SIGHUP, which tells that the terminal is gone, stays ignored where it was: under ``nohup``. A second signal raises
    KeyboardInterrupt at once, for when the next good moment is too far away.
    Outside the main thread, where Python delivers no signals, nothing is changed.
    """

    def __init__(self):
        self.signal: int | None = None
        self._before: dict = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in _wishes():
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


def _wishes() -> list[int]:
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    ignored = hangup is None or signal.getsignal(hangup) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM] + [hangup] * (not ignored)
