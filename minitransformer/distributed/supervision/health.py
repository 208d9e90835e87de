"""What is known of each rank of a job, and whether the job must end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LATE = 5.0  # seconds after a failure in which ranks that have not come yet may come and be told of it
GRACE = 0.5  # seconds after a failure in which others may report theirs: the lowest rank is told of


@dataclass
class RankStatus:
    """What is known of a rank: ``number`` of collectives it has come to, how long it ``waits`` in the last one.

    process: its number on its own machine
    """

    who: str
    process: int
    heard: float
    number: int = 0
    waits: float | None = None
    busy: str = ""
    left: bool = False


@dataclass(frozen=True)
class Failure:
    """Why the job ends, and with which exit code. reported: by the rank itself, which may have printed more."""

    message: str
    code: int = 2
    reported: bool = False


class HealthMonitor:
    """Over ``size`` ranks. ``judge`` finds out who is missing, silent or keeps others waiting for ``deadline`` seconds.

    Attributes:
        ranks: those that have come.
    """

    def __init__(self, size: int, deadline: float):
        self.size, self.deadline = size, deadline
        self.ranks: dict[int, RankStatus] = {}
        self._ended: Failure | None = None  # an end that needs no more thought
        self._failures: dict[int, Failure] = {}
        self._failed = 0.0
        self._began = self._last_busy = time.monotonic()

    def comes(self, rank: int, size: int, who: str, process: int) -> bool:
        """A process says that it is ``rank`` of ``size``; False: it cannot be, and the job must end."""
        if size != self.size:
            self._ended = Failure(f"rank {rank} ({who}) must be one of {self.size} ranks, got a world size of {size}")
        elif rank in self.ranks or not 0 <= rank < size:
            self._ended = Failure(f"rank {rank} must be one process in 0..{size - 1}, got another one, {who}")
        else:
            self.ranks[rank] = RankStatus(who, process, time.monotonic())
        return self._ended is None

    def take(self, rank: int, message: dict) -> None:
        """What ``rank`` tells of itself; ValueError, KeyError, TypeError or OverflowError: a rank would not."""
        seen = self.ranks[rank]
        seen.heard = time.monotonic()
        if "number" in message:
            seen.number, seen.busy = int(message["number"]), str(message["busy"])
            seen.waits = None if message["waits"] is None else float(message["waits"])
        if "deadline" in message:
            self.deadline = float(message["deadline"])
        if "failed" in message:
            self._failed = self._failed or time.monotonic()
            where = "" if message["by_all"] else f"rank {rank}: "
            self._failures[rank] = Failure(where + message["failed"], int(message["code"]), reported=True)
        seen.left = seen.left or "bye" in message

    def ends(self, rank: int, explain: Callable[[int], str]) -> None:
        """``rank`` has closed its connection; without a farewell the job must end, and ``explain`` is asked why."""
        seen = self.ranks[rank]
        first = not seen.left and not self._failures and self._ended is None
        seen.left = True
        if first:  # those that end after the first end because of it
            self._ended = Failure(f"rank {rank} ({seen.who}) ended without a word: {explain(rank)}")

    def all_have_left(self) -> bool:
        return len(self.ranks) == self.size and all(seen.left for seen in self.ranks.values())

    def judge(self) -> Failure | None:
        """Whether the job must end now, and why."""
        now = time.monotonic()
        if self._ended is not None:
            return self._ended
        if self._failures:
            all_here = len(self.ranks) == self.size or now - self._failed > LATE
            told = all_here and (0 in self._failures or now - self._failed > GRACE)
            return self._failures[min(self._failures)] if told else None
        missing = sorted(set(range(self.size)) - set(self.ranks))
        if missing and now - self._began > self.deadline:
            return Failure(
                f"all {self.size} ranks must come within {self.deadline:g} s, got no word of {_ranks(missing)}; were "
                "they started, and does MASTER_ADDR lead here?"
            )
        present = {rank: seen for rank, seen in self.ranks.items() if not seen.left}
        for rank, seen in present.items():
            if now - seen.heard > self.deadline:
                return Failure(
                    f"rank {rank} ({seen.who}) has been silent for {self.deadline:g} s (training.deadline): it is "
                    "stopped, or its machine cannot be reached"
                )
        if any(seen.busy for seen in present.values()):
            self._last_busy = now
        return self._stuck(present, now)

    def _stuck(self, present: dict[int, RankStatus], now: float) -> Failure | None:
        """The verdict if somebody has waited in a collective for longer than the deadline."""
        waiting = [seen for seen in present.values() if seen.waits is not None and seen.waits > self.deadline]
        if not waiting or now - self._last_busy <= self.deadline:
            return None
        furthest = max(seen.number for seen in waiting)
        behind = [rank for rank, seen in sorted(self.ranks.items()) if seen.number < furthest]
        if behind:
            return Failure(
                f"{_ranks(behind)} must come to collective {furthest} within {self.deadline:g} s (training.deadline), "
                f"got only to {min(self.ranks[rank].number for rank in behind)}; the others wait there"
            )
        return Failure(
            f"collective {furthest} must end within {self.deadline:g} s (training.deadline), got all ranks waiting in "
            "it; is the network between them up?"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"
