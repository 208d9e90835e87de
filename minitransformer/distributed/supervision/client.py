"""A rank's line to the supervisor: signs of life, values for the others, and the end when the supervisor says so."""

import os
import platform
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from minitransformer.distributed.communicator import Communicator, Store
from minitransformer.distributed.listener import connect
from minitransformer.distributed.supervision.messages import MessageSocket
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

HIGH = 200
"""A file descriptor that the other files of a process do not reach."""


class SupervisorClient(Store):
    """Connects this process to the supervisor at ``address`` and keeps in touch with it, in a thread of its own.

    print_error: tells the user, where there is no supervisor left that could
    end: ends this process with an exit code, until a communicator is followed, whose ``abort`` does so then

    Attributes:
        host: the address under which other ranks reach this machine.

    Raises:
        RanksError: the supervisor cannot be reached within ``timeouts.start`` seconds, or has another token.
        ConfigError: something else listens there.
    """

    def __init__(
        self,
        rank_info: RankInfo,
        address: tuple[str, int],
        print_error: Callable[[str], object],
        *,
        token: str = "",
        end: Callable[[int], object] = os._exit,
        timeouts: Timeouts = TIMEOUTS,
    ):
        self.rank, self.timeout = rank_info.rank, timeouts.start
        # If the supervisor is lost, one on each machine tells; where it was a thread of rank 0, rank 1 is the first.
        self._tells = rank_info.local_rank == 0 or (self.rank == 1 and not rank_info.launched)
        self._supervisor = "launch" if rank_info.launched else "rank 0"
        self._print_error, self._end, self._timeouts = print_error, end, timeouts
        self._communicator: Communicator | None = None
        self._busy = ""
        self._values: dict[str, str] = {}
        self._listeners: dict[str, Callable[[], object]] = {}
        self._arrived = threading.Condition()
        self._leaving = threading.Event()
        connection = _first_to_close(connect(address, token, timeouts.start, timeouts))
        self._lines = MessageSocket(connection, timeouts.send)
        self.host: str = connection.getsockname()[0]
        who = f"process {os.getpid()} on {platform.node()}"
        self._lines.send(rank=self.rank, size=rank_info.size, who=who)
        threading.Thread(target=self._keep_in_touch, name="supervisor client", daemon=True).start()

    def follow(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def set_timeout(self, seconds: float) -> None:
        """``training.timeout``; rank 0 tells the supervisor."""
        self.timeout = seconds
        if self.rank == 0:
            self._send(timeout=seconds)

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        before, self._busy = self._busy, doing
        self._beat()
        try:
            yield
        finally:
            self._busy = before
            self._beat()

    def put(self, key: str, value: str) -> None:
        self._send(put=key, value=value)

    def get(self, key: str) -> str:
        self._send(get=key)
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._values)
            return self._values[key]

    def listen(self, key: str, heard: Callable[[], object]) -> None:
        self._listeners[key] = heard
        self._send(get=key)

    def fail(self, cause: str, code: int = 2, by_all: bool = False) -> None:
        """Report why this rank cannot go on; the supervisor then ends the job. Does not return.

        by_all: all ranks report the same, so the message names none
        """
        with suppress(OSError):
            self._lines.send(failed=cause, code=code, by_all=by_all)
        time.sleep(self.timeout)  # the other thread ends this process as soon as the supervisor has told all
        self._end_alone(cause, code)

    def leave(self) -> None:
        """Say goodbye: this rank is done. All must have come here, which a barrier before it makes sure of."""
        self._leaving.set()
        with suppress(OSError):
            self._lines.send(bye=True)
            self._lines.close()

    def _send(self, **message: object) -> None:
        with suppress(OSError):  # the other thread finds out why
            self._lines.send(**message)

    def _beat(self) -> None:
        number, waits = (0, None) if self._communicator is None else self._communicator.progress()
        self._send(number=number, waits=waits, busy=self._busy)

    def _stop(self, code: int) -> None:
        (self._end if self._communicator is None else self._communicator.abort)(code)

    def _keep_in_touch(self) -> None:
        heartbeat = self._timeouts.heartbeat
        heard = beaten = time.monotonic()
        while not self._leaving.is_set():
            try:
                ready = select.select([self._lines], [], [], heartbeat / 2)[0]
                messages = self._lines.receive() if ready else []
            except (OSError, ValueError):
                messages = None
            now = time.monotonic()
            heard = now if messages else heard
            if self._leaving.is_set():
                return
            if messages is None:
                self._end_alone(f"{self._supervisor} ended without a word: it was killed, or it crashed")
            elif now - heard > max(self.timeout, 4 * heartbeat):
                self._end_alone(f"{self._supervisor} has been silent for {self.timeout:g} s: is it stopped?")
            for message in messages or ():
                if "end" in message:
                    self._stop(message["end"])
                    return
                if "key" in message:
                    self._arrive(message["key"], message["value"])
            if now - beaten > heartbeat:
                beaten = now
                self._beat()

    def _arrive(self, key: str, value: str) -> None:
        with self._arrived:
            self._values[key] = value
            self._arrived.notify_all()
        self._listeners.get(key, lambda: None)()

    def _end_alone(self, cause: str, code: int = 2) -> None:
        """Tell the user, where the supervisor cannot, and end this process; the others wait until that is done."""
        if self._tells:
            self._print_error(f"{cause} (seen from rank {self.rank})")
            sys.stderr.flush()
        time.sleep(self._timeouts.flush if self._tells else self._timeouts.abort_delay)
        self._stop(code)


def _first_to_close(connection: socket.socket) -> socket.socket:
    """The same under a high number: of a process that is killed, Linux closes the files from the highest number down.

    So the supervisor hears of the end of a rank before mpiexec does, which would take the others down at once.
    """
    try:
        number = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except (AttributeError, OSError):  # not a Unix, or no process may have so many files
        return connection
    connection.close()
    return socket.socket(fileno=number)
