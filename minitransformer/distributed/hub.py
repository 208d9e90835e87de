"""The hub of the ranks: where they meet, pass short words, and are watched, so that nobody waits for the dead.

Each rank keeps one connection to the hub and says twice a second that it lives, in which collective it waits and for
how long. The hub ends the whole job, with one message, when a rank reports a failure, closes its connection without a
farewell (killed, crashed), is silent for longer than the deadline (stopped, unreachable), or keeps the others waiting
for longer than that. It runs in a thread of ``launch``, else of rank 0.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from minitransformer.distributed.lines import Lines
from minitransformer.errors import ConfigError

BEAT = 0.5  # seconds between two signs of life
DEADLINE = 120.0  # seconds, until the config is read and says otherwise
LATE = 5.0  # seconds after a failure in which ranks that have not come yet may come and be told of it
SETTLE = 0.3  # seconds between the message and the end: a launcher that ends with a rank must have passed it on
GRACE = 0.5  # seconds after a failure in which others may report theirs: the lowest rank is told of


@dataclass
class Seen:
    """What the hub knows of a rank: ``number`` of collectives it has entered, how long it ``waits`` in the last one."""

    lines: Lines
    who: str
    heard: float
    number: int = 0
    waits: float | None = None
    busy: str = ""
    left: bool = False
    wishes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """Why the job ends, and with which exit code. reported: by the rank itself, which may have printed more."""

    message: str
    code: int = 2
    reported: bool = False


class Hub:
    """Waits for ``size`` ranks on ``port`` (0: any that is free) and watches them, in a thread of its own.

    speak: called once if the job must end, with the message
    explain: what is known of the end of a rank that closed its connection without a farewell

    Raises:
        ConfigError: the port is in use, or is not this machine's.
    """

    def __init__(
        self,
        size: int,
        speak: Callable[[str], object],
        *,
        host: str = "",
        port: int = 0,
        deadline: float = DEADLINE,
        explain: Callable[[int], str] = lambda rank: "it was killed, or it crashed",
    ):
        try:
            self._server = socket.create_server((host, port))
        except (OSError, OverflowError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            raise ConfigError(f"ranks: port {port} must be free, got {reason}; set another MASTER_PORT") from error
        self.size, self.deadline = size, deadline
        self.port: int = self._server.getsockname()[1]
        self.verdict: Verdict | None = None
        self.ended = threading.Event()
        self._speak, self._explain = speak, explain
        self._ranks: dict[int, Seen] = {}
        self._strangers: dict[Lines, float] = {}  # connections that have not yet said who they are, and since when
        # One selector for good: where the system has epoll it tells of events in their order, so that of ranks that end
        # one after the other the first is found, however late the hub looks.
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._words: dict[str, str] = {}
        self._failures: dict[int, Verdict] = {}
        self._began = self._last_busy = self._beaten = time.monotonic()
        self._failed = 0.0
        threading.Thread(target=self._watch, name="hub", daemon=True).start()

    @property
    def processes(self) -> list[int]:
        """The process of each rank that has come, as ``rank`` of its own machine numbers it."""
        return [int(seen.who.split()[1]) for seen in self._ranks.values()]

    def _watch(self) -> None:
        while self.verdict is None:
            self._read()
            self.verdict = self.verdict or self._judge()
            if self.verdict is None and len(self._ranks) == self.size and all(s.left for s in self._ranks.values()):
                break
        if self.verdict is not None:
            self._speak(self.verdict.message)
            time.sleep(SETTLE)
            self._dismiss(self.verdict.code)
        self._selector.close()
        self._server.close()
        self.ended.set()

    def _dismiss(self, code: int) -> None:
        """Tell all to end, rank 0 last: the hub may be a thread of its process. So are late-comers told."""
        present = [self._ranks[rank].lines for rank in sorted(self._ranks, reverse=True)]
        until = time.monotonic() + GRACE
        while present or self._strangers or time.monotonic() < until:
            for lines in (*self._strangers, *present):
                with suppress(OSError):
                    lines.send(end=code)
            present = []
            self._strangers.clear()
            if select.select([self._server], [], [], GRACE)[0]:
                self._strangers[Lines(self._server.accept()[0])] = time.monotonic()

    def _read(self) -> None:
        for key, _ in self._selector.select(BEAT / 2):
            source = key.fileobj
            if source is self._server:
                lines = Lines(self._server.accept()[0])
                self._strangers[lines] = time.monotonic()
                self._selector.register(lines, selectors.EVENT_READ)
            elif source in self._strangers:
                self._welcome(source)
            else:
                self._hear(next(rank for rank, seen in self._ranks.items() if seen.lines is source))
                self._forget_the_gone()
        if time.monotonic() - self._beaten > BEAT:
            self._beaten = time.monotonic()
            for seen in self._ranks.values():
                with suppress(OSError):  # a closed connection is found when it is read
                    if not seen.left:
                        seen.lines.send()

    def _welcome(self, lines: Lines) -> None:
        """A connection says who it is. Whoever does not speak as a rank is sent away."""
        try:
            messages = lines.receive()
            if messages == []:
                return
            hello, *more = messages or [{}]
            rank, size, who = int(hello["rank"]), int(hello["size"]), str(hello["who"])
        except (ValueError, KeyError, TypeError):
            self._strangers.pop(lines)
            self._selector.unregister(lines)
            lines.close()
            return
        if size != self.size:
            self.verdict = Verdict(f"rank {rank} ({who}) must be one of {self.size} ranks, got a world size of {size}")
        elif rank in self._ranks or not 0 <= rank < size:
            self.verdict = Verdict(f"rank {rank} must be one process in 0..{size - 1}, got another one, {who}")
        else:
            self._strangers.pop(lines)
            self._ranks[rank] = Seen(lines, who, time.monotonic())
            lines.send()  # welcome
            for message in more:
                self._take(rank, message)

    def _hear(self, rank: int) -> None:
        seen = self._ranks[rank]
        try:
            messages = seen.lines.receive()
        except ValueError:
            messages = None
        if messages is None:
            seen.left = True
            if not self._failures and self.verdict is None:  # those that end after the first end because of it
                self.verdict = Verdict(f"rank {rank} ({seen.who}) ended without a word: {self._explain(rank)}")
            return
        for message in messages:
            self._take(rank, message)

    def _forget_the_gone(self) -> None:
        watched = {key.fileobj for key in list(self._selector.get_map().values())}
        for seen in self._ranks.values():
            if seen.left and seen.lines in watched:
                self._selector.unregister(seen.lines)

    def _take(self, rank: int, message: dict) -> None:
        seen = self._ranks[rank]
        seen.heard = time.monotonic()
        if "number" in message:
            seen.number, seen.waits, seen.busy = message["number"], message["waits"], message["busy"]
        if "deadline" in message:
            self.deadline = message["deadline"]
        if "put" in message:
            self._words[message["put"]] = message["word"]
            for each in self._ranks.values():
                self._grant(each)
        if "get" in message:
            seen.wishes.append(message["get"])
            self._grant(seen)
        if "failed" in message:
            self._failed = self._failed or time.monotonic()
            where = "" if message["by_all"] else f"rank {rank}: "
            self._failures[rank] = Verdict(where + message["failed"], message["code"], reported=True)
        seen.left = seen.left or "bye" in message

    def _grant(self, seen: Seen) -> None:
        """Send the words that this rank has asked for and that are there."""
        for key in [wish for wish in seen.wishes if wish in self._words]:
            seen.wishes.remove(key)
            with suppress(OSError):
                seen.lines.send(key=key, word=self._words[key])

    def _judge(self) -> Verdict | None:
        """Whether the job must end now, and why."""
        now = time.monotonic()
        if self._failures:
            all_here = len(self._ranks) == self.size or now - self._failed > LATE
            told = all_here and (0 in self._failures or now - self._failed > GRACE)
            return self._failures[min(self._failures)] if told else None
        missing = sorted(set(range(self.size)) - set(self._ranks))
        if missing and now - self._began > self.deadline:
            return Verdict(
                f"all {self.size} ranks must come within {self.deadline:g} s, got no word of {_ranks(missing)}; were "
                "they started, and does MASTER_ADDR lead here?"
            )
        present = {rank: seen for rank, seen in self._ranks.items() if not seen.left}
        for rank, seen in present.items():
            if now - seen.heard > self.deadline:
                return Verdict(
                    f"rank {rank} ({seen.who}) has been silent for {self.deadline:g} s (training.deadline): it is "
                    "stopped, or its machine cannot be reached"
                )
        if any(seen.busy for seen in present.values()):
            self._last_busy = now
        return self._stuck(present, now)

    def _stuck(self, present: dict[int, Seen], now: float) -> Verdict | None:
        """The verdict if somebody has waited in a collective for longer than the deadline."""
        waiting = [seen for seen in present.values() if seen.waits is not None and seen.waits > self.deadline]
        if not waiting or now - self._last_busy <= self.deadline:
            return None
        furthest = max(seen.number for seen in waiting)
        behind = [rank for rank, seen in sorted(self._ranks.items()) if seen.number < furthest]
        if behind:
            return Verdict(
                f"{_ranks(behind)} must come to collective {furthest} within {self.deadline:g} s (training.deadline), "
                f"got only to {min(self._ranks[rank].number for rank in behind)}; the others wait there"
            )
        return Verdict(
            f"collective {furthest} must end within {self.deadline:g} s (training.deadline), got all ranks waiting in "
            "it; is the network between them up?"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"
