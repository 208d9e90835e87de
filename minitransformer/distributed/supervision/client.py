"""A rank's line to the hub: signs of life, words for the others, and the end when the hub says so."""

from __future__ import annotations

import os
import platform
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from minitransformer.distributed.rank_info import RankInfo
from minitransformer.distributed.supervision.messages import MessageSocket
from minitransformer.distributed.supervision.supervisor import BEAT, DEADLINE, SETTLE
from minitransformer.errors import ConfigError, RanksError

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

WELCOME = 10.0  # seconds in which a hub answers at the latest
HIGH = 200  # a number that the other files of a process do not reach
LATER = 2.0  # seconds that a rank leaves to the one which ends all: if all abort at once, mpiexec reports a crash


class SupervisorClient:
    """Connects the process at ``place`` to the hub at ``address`` and keeps in touch with it, in a thread of its own.

    Attributes:
        stop: how this process ends, with an exit code, when the hub says so; engines put theirs here.
        ends_all: the end of one process is, through MPI, the end of all.
        progress: how many collectives this rank has come to, and the seconds for which it waits in the last one, if it
            does; engines whose calls do not wait put theirs here.

    speak: tells the user, where there is no hub left that could

    Raises:
        RanksError: the hub cannot be reached within ``deadline`` seconds.
        ConfigError: something else listens there.
    """

    def __init__(
        self,
        place: RankInfo,
        address: tuple[str, int],
        speak: Callable[[str], object],
        deadline: float = DEADLINE,
        stop: Callable[[int], object] = os._exit,
    ):
        rank, size = place.rank, place.size
        self.rank, self.size, self.deadline = rank, size, deadline
        # If the hub is lost, one on each machine tells; the first where the hub was a thread of rank 0 is rank 1.
        self._speaks = place.local_rank == 0 or (rank == 1 and not place.launched)
        self._hub = "launch" if place.launched else "rank 0"
        self.stop = stop
        self.ends_all = False
        self.progress: Callable[[], tuple[int, float | None]] = self._progress
        self._speak = speak
        self._number, self._entered, self._busy = 0, None, ""
        self._words: dict[str, str] = {}
        self._heard: dict[str, Callable[[], object]] = {}
        self._news = threading.Condition()
        self._leaving = threading.Event()
        self._lines = MessageSocket(_first_to_close(_connected(address, deadline)))
        self.host = self._lines.socket.getsockname()[0]  # the address under which the others reach this machine
        who = f"process {os.getpid()} on {platform.node()}"
        self._lines.send(rank=rank, size=size, who=who, process=os.getpid())
        if not select.select([self._lines], [], [], WELCOME)[0]:
            raise ConfigError(
                f"ranks: rank 0 must listen at {address[0]}:{address[1]}, got no answer; set another MASTER_PORT"
            )
        threading.Thread(target=self._keep_in_touch, name="member", daemon=True).start()

    def set_deadline(self, seconds: float) -> None:
        """What the config says; rank 0 tells the hub."""
        self.deadline = seconds
        if self.rank == 0:
            self._send(deadline=seconds)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a collective."""
        self._number += 1
        self._entered = time.monotonic()
        try:
            yield
        finally:
            self._entered = None

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Around work during which the others' deadline does not run."""
        before, self._busy = self._busy, doing
        self._beat()
        try:
            yield
        finally:
            self._busy = before
            self._beat()

    def put(self, key: str, word: str) -> None:
        """Leave a word at the hub under ``key``."""
        self._send(put=key, word=word)

    def get(self, key: str) -> str:
        """The word under ``key``, as soon as some rank has left it."""
        self._send(get=key)
        with self._news:
            self._news.wait_for(lambda: key in self._words)
            return self._words[key]

    def listen(self, key: str, heard: Callable[[], object]) -> None:
        """Call ``heard``, in the thread that keeps in touch, as soon as some rank has left a word under ``key``."""
        self._heard[key] = heard
        self._send(get=key)

    def gather(self, key: str, word: str) -> list[str]:
        """The words of all ranks under ``key``, in the order of the ranks; a collective."""
        with self.waiting():
            self.put(f"{key}/{self.rank}", word)
            return [self.get(f"{key}/{rank}") for rank in range(self.size)]

    def fail(self, cause: str, code: int = 2, by_all: bool = False) -> None:
        """Report why this rank cannot go on; the hub then ends the job. Does not return."""
        with suppress(OSError):
            self._lines.send(failed=cause, code=code, by_all=by_all)
        time.sleep(self.deadline)  # the other thread ends this process as soon as the hub has told all
        self._last_words(cause, code)

    def leave(self) -> None:
        """Say good-bye: this rank is done. All must have come here, which a barrier before it makes sure of."""
        self._leaving.set()
        with suppress(OSError):
            self._lines.send(bye=True)
            self._lines.close()

    def _send(self, **message: object) -> None:
        with suppress(OSError):  # the other thread finds out why
            self._lines.send(**message)

    def _progress(self) -> tuple[int, float | None]:
        entered = self._entered
        return self._number, None if entered is None else time.monotonic() - entered

    def _beat(self) -> None:
        number, waits = self.progress()
        self._send(number=number, waits=waits, busy=self._busy)

    def _keep_in_touch(self) -> None:
        heard = beaten = time.monotonic()
        while not self._leaving.is_set():
            try:
                ready = select.select([self._lines], [], [], BEAT / 2)[0]
                messages = self._lines.receive() if ready else []
            except (OSError, ValueError):
                messages = None
            now = time.monotonic()
            heard = now if messages else heard
            if self._leaving.is_set():
                return
            if messages is None:
                self._last_words(f"{self._hub} ended without a word: it was killed, or it crashed")
            elif now - heard > max(self.deadline, 4 * BEAT):
                self._last_words(f"{self._hub} has been silent for {self.deadline:g} s: is it stopped?")
            for message in messages or ():
                if "end" in message:
                    if self.ends_all and self.rank != 0:
                        time.sleep(LATER)
                    self.stop(message["end"])
                    return
                if "key" in message:
                    with self._news:
                        self._words[message["key"]] = message["word"]
                        self._news.notify_all()
                    self._heard.get(message["key"], lambda: None)()
            if now - beaten > BEAT:
                beaten = now
                self._beat()

    def _last_words(self, cause: str, code: int = 2) -> None:
        """Tell the user, where the hub cannot, and end this process; the others wait until the word is out."""
        if self._speaks:
            self._speak(f"{cause} (seen from rank {self.rank})")
            sys.stderr.flush()
        time.sleep(SETTLE if self._speaks else LATER)
        self.stop(code)


def _connected(address: tuple[str, int], deadline: float) -> socket.socket:
    """A connection to the hub; rank 0 may not have opened it yet."""
    until = time.monotonic() + deadline
    while True:
        try:
            return socket.create_connection(address, timeout=max(0.1, min(5.0, until - time.monotonic())))
        except OSError as error:
            if time.monotonic() > until:
                raise RanksError(
                    f"ranks: rank 0 must listen at {address[0]}:{address[1]}, got {error.strerror or error} for "
                    f"{deadline:g} s; was it started, and are MASTER_ADDR and MASTER_PORT its own?"
                ) from error
            time.sleep(0.1)


def _first_to_close(connection: socket.socket) -> socket.socket:
    """The same under a high number: of a process that is killed, Linux closes the files from the highest number down.

    So the hub hears of the end of a rank before mpiexec does, which would take the others down at once.
    """
    try:
        number = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except (AttributeError, OSError):  # not a Unix, or no process may have so many files
        return connection
    connection.close()
    return socket.socket(fileno=number)
