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

from minitransformer.distributed.supervision.health import GRACE, Failure, HealthMonitor
from minitransformer.distributed.supervision.messages import MessageSocket
from minitransformer.errors import ConfigError

BEAT = 0.5  # seconds between two signs of life
DEADLINE = 120.0  # seconds, until the config is read and says otherwise
NONSENSE = (ValueError, KeyError, TypeError, OverflowError)  # what words raise that are not a rank's
SETTLE = 0.3  # seconds between the message and the end: a launcher that ends with a rank must have passed it on


class Supervisor:
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
        self.watch = HealthMonitor(size, deadline)
        self.port: int = self._server.getsockname()[1]
        self.verdict: Failure | None = None
        self.ended = threading.Event()
        self._speak, self._explain = speak, explain
        self._ranks: dict[int, MessageSocket] = {}
        self._strangers: list[MessageSocket] = []  # connections that have not yet said who they are
        # One selector for good: where the system has epoll it tells of events in their order, so that of ranks that end
        # one after the other the first is found, however late the hub looks.
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._words: dict[str, str] = {}
        self._wishes: dict[int, list[str]] = {}  # of each rank, the keys of words that are not there yet
        self._beaten = time.monotonic()
        threading.Thread(target=self._run, name="hub", daemon=True).start()

    @property
    def processes(self) -> list[int]:
        """The process of each rank that has come, as its own machine numbers it."""
        return [seen.process for seen in list(self.watch.ranks.values())]

    def _run(self) -> None:
        """Until all have left, or the job must end."""
        while self.verdict is None and not self.watch.all_have_left():
            self._read()
            self.verdict = self.watch.judge()
        if self.verdict is not None:
            self._speak(self.verdict.message)
            time.sleep(SETTLE)
            self._dismiss(self.verdict.code)
        for lines in (*self._strangers, *self._ranks.values()):
            lines.close()
        self._selector.close()
        self._server.close()
        self.ended.set()

    def _dismiss(self, code: int) -> None:
        """Tell all to end, rank 0 last: the hub may be a thread of its process. So are late-comers told."""
        untold = [*self._strangers, *(self._ranks[rank] for rank in sorted(self._ranks, reverse=True))]
        until = time.monotonic() + GRACE
        while True:
            for lines in untold:
                with suppress(OSError):
                    lines.send(end=code)
            untold = []
            left = until - time.monotonic()
            if left <= 0:  # however many keep coming
                return
            if select.select([self._server], [], [], left)[0]:
                with suppress(OSError):
                    untold = [MessageSocket(self._server.accept()[0])]
                self._strangers += untold

    def _read(self) -> None:
        for key, _ in self._selector.select(BEAT / 2):
            source = key.fileobj
            if source is self._server:
                with suppress(OSError):  # whoever it was has gone again
                    self._strangers.append(MessageSocket(self._server.accept()[0]))
                    self._selector.register(self._strangers[-1], selectors.EVENT_READ)
            elif source in self._strangers:
                self._welcome(source)
            else:
                self._hear(next(rank for rank, lines in self._ranks.items() if lines is source))
        if time.monotonic() - self._beaten > BEAT:
            self._beaten = time.monotonic()
            for rank, lines in self._ranks.items():
                with suppress(OSError):  # a closed connection is found when it is read
                    if not self.watch.ranks[rank].left:
                        lines.send()

    def _welcome(self, lines: MessageSocket) -> None:
        """A connection says who it is. Whoever does not speak as a rank is sent away."""
        try:
            messages = lines.receive()
            if messages == []:
                return
            hello, *more = messages or [{}]
            rank, size, who = int(hello["rank"]), int(hello["size"]), str(hello["who"])
            process = int(hello["process"])
            if not 0 < process < 1 << 31:  # 0 and less would mean many processes to who sends a signal
                raise ValueError("not a process")
        except NONSENSE:
            self._strangers.remove(lines)
            self._selector.unregister(lines)
            lines.close()
            return
        if self.watch.comes(rank, size, who, process):
            self._strangers.remove(lines)
            self._ranks[rank], self._wishes[rank] = lines, []
            with suppress(OSError):
                lines.send()  # welcome
            self._hear(rank, more)

    def _hear(self, rank: int, messages: list[dict] | None = None) -> None:
        """Take what a rank says, ``messages`` if they have been read already. Who talks nonsense is gone for us."""
        lines = self._ranks[rank]
        try:
            messages = lines.receive() if messages is None else messages
            for message in messages or ():
                self._take(rank, message)
        except NONSENSE:
            messages = None
        if messages is None:
            self.watch.ends(rank, self._explain)
        if self.watch.ranks[rank].left:
            self._selector.unregister(lines)

    def _take(self, rank: int, message: dict) -> None:
        self.watch.take(rank, message)
        if "put" in message:
            self._words[str(message["put"])] = str(message["word"])
            for each in self._ranks:
                self._grant(each)
        if "get" in message:
            self._wishes[rank].append(str(message["get"]))
            self._grant(rank)

    def _grant(self, rank: int) -> None:
        """Send the words that this rank has asked for and that are there."""
        wishes = self._wishes[rank]
        for key in [wish for wish in wishes if wish in self._words]:
            wishes.remove(key)
            with suppress(OSError):
                self._ranks[rank].send(key=key, word=self._words[key])
