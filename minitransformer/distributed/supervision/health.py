"""The state of each rank of a job, and whether the job must end."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import printable

MAX_NAME, MAX_CAUSE = 200, 2000
"""Characters that are shown of the name and of the failure that a rank reports."""


@dataclass
class RankStatus:
    """The state of a rank: the ``number`` of collectives it has reached, the seconds it ``waits`` in the last one."""

    who: str
    last_message: float
    number: int = 0
    waits: float | None = None
    busy: bool = False
    left: bool = False


@dataclass(frozen=True)
class Failure:
    """Why the job ends, and with which exit code."""

    message: str
    code: int = 2


class HealthMonitor:
    """Over ``size`` ranks. ``judge`` finds one that is missing, silent or keeps others waiting for ``timeout`` seconds.

    Attributes:
        timeout: ``timeouts.start``, until rank 0 sends ``training.timeout``. Ranks always have ``timeouts.start`` to
            connect, and until all have, waiting in a collective is no failure.
        ranks: those that have connected.
    """

    def __init__(self, size: int, timeouts: Timeouts = TIMEOUTS):
        self.size, self.timeout = size, timeouts.start
        self.ranks: dict[int, RankStatus] = {}
        self._timeouts = timeouts
        self._decided: Failure | None = None
        self._reported: dict[int, Failure] = {}  # by the ranks themselves
        self._first_report = 0.0
        self._began = self._last_busy = time.monotonic()

    def add(self, rank: int, size: int, who: str) -> bool:
        """A process claims to be ``rank`` of ``size``; False: it cannot be, and the job must end."""
        who = printable(who, MAX_NAME)
        if size != self.size:
            self._decided = Failure(f"rank {rank} ({who}) must be one of {self.size} ranks, got a world size of {size}")
        elif rank in self.ranks or not 0 <= rank < size:
            self._decided = Failure(f"rank {rank} must be one process in 0..{size - 1}, got another one, {who}")
        else:
            self.ranks[rank] = RankStatus(who, time.monotonic())
        return self._decided is None

    def take(self, rank: int, message: dict) -> None:
        """Read what ``rank`` reports of itself; ValueError, KeyError, TypeError or OverflowError: it is not valid."""
        status = self.ranks[rank]
        status.last_message = time.monotonic()
        if "number" in message:
            status.number, status.busy = int(message["number"]), bool(message["busy"])
            status.waits = None if message["waits"] is None else float(message["waits"])
        if "timeout" in message:
            self.timeout = float(message["timeout"])
        if "failed" in message:
            where = "" if message["by_all"] else f"rank {rank}: "
            self._first_report = self._first_report or status.last_message
            self._reported[rank] = Failure(printable(where + message["failed"], MAX_CAUSE), int(message["code"]))
        status.left = status.left or "bye" in message

    def remove(self, rank: int, explain: Callable[[int], str]) -> None:
        """The connection of ``rank`` is closed; if it has not left, the job must end, and ``explain`` is asked why."""
        status = self.ranks[rank]
        is_cause = not status.left and not self._reported and self._decided is None
        status.left = True
        if is_cause:  # those that end after the first end because of it
            self._decided = Failure(f"rank {rank} ({status.who}) ended unexpectedly: {explain(rank)}")

    def fail(self, message: str) -> None:
        """The job must end, for a reason that no connection shows; without effect if another one has been found."""
        self._decided = self._decided or Failure(message)

    def all_have_come(self) -> bool:
        return len(self.ranks) == self.size

    def all_have_left(self) -> bool:
        return self.all_have_come() and all(status.left for status in self.ranks.values())

    def judge(self) -> Failure | None:
        """Why the job must end now; None: it need not."""
        now = time.monotonic()
        if self._decided is not None:
            return self._decided
        if self._reported:
            all_here = self.all_have_come() or now - self._first_report > self._timeouts.late_ranks
            all_reported = 0 in self._reported or now - self._first_report > self._timeouts.other_failures
            return self._reported[min(self._reported)] if all_here and all_reported else None
        missing, start = sorted(set(range(self.size)) - set(self.ranks)), max(self._timeouts.start, self.timeout)
        if missing and now - self._began > start:
            return Failure(
                f"all {self.size} ranks must connect within {start:g} s, got no connection from {_ranks(missing)}; "
                "were they started, does MASTER_ADDR lead here, and have all the same MINITRANSFORMER_TOKEN?"
            )
        present = {rank: status for rank, status in self.ranks.items() if not status.left}
        for rank, status in present.items():
            if now - status.last_message > self.timeout:
                return Failure(
                    f"rank {rank} ({status.who}) has been silent for {self.timeout:g} s (training.timeout): it is "
                    "stopped, or its machine cannot be reached"
                )
        if missing or any(status.busy for status in present.values()):
            self._last_busy = now
        return self._stuck(present, now)

    def _stuck(self, present: dict[int, RankStatus], now: float) -> Failure | None:
        """The failure if a rank has waited in a collective for longer than the timeout."""
        waiting = [status for status in present.values() if status.waits is not None and status.waits > self.timeout]
        if not waiting or now - self._last_busy <= self.timeout:
            return None
        furthest = max(status.number for status in waiting)
        behind = {rank: status.number for rank, status in sorted(self.ranks.items()) if status.number < furthest}
        if behind:
            return Failure(
                f"{_ranks(list(behind))} must reach collective {furthest} within {self.timeout:g} s "
                f"(training.timeout), got only to {min(behind.values())}; the others wait there"
            )
        return Failure(
            f"collective {furthest} must end within {self.timeout:g} s (training.timeout), got all ranks waiting in "
            "it; is the network between them up?"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"
