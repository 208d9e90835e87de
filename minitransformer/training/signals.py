"""SIGINT, SIGTERM and SIGHUP end a run after the update that is being computed."""

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
    """A context in which the first SIGINT, SIGTERM or SIGHUP is only recorded in ``signal``, not acted on.

    SIGHUP, which is sent when the terminal closes, stays ignored if it was, as under ``nohup``. After the first signal,
    a SIGINT raises KeyboardInterrupt at once; others are ignored: they come from a scheduler that repeats itself, or
    that signals a rank as well as the ``launch`` that passes it on. Outside the main thread, where Python delivers no
    signals, nothing is changed.
    """

    def __init__(self):
        self.signal: int | None = None
        self._before: dict = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            hangup = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # not on Windows
            for number in (signal.SIGINT, signal.SIGTERM, *hangup):
                if number not in hangup or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
