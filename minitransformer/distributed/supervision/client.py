"""A rank's connection to the supervisor: heartbeats, values for the other ranks, and the order to end."""

import os
import platform
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from minitransformer.distributed.communicator import Communicator, Store
from minitransformer.distributed.connections import connect
from minitransformer.distributed.supervision.messages import decode, encode
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import RanksError

ENDED = "ended unexpectedly: it was killed, or it crashed"


class SupervisorClient(Store):
    """Connects this process to the supervisor at ``address``; one thread sends heartbeats, another one receives.

    print_error: prints the line that the user reads, where there is no supervisor left to do so
    end: ends this process with an exit code

    Attributes:
        host: the address under which other ranks reach this machine.

    Raises:
        RanksError: the supervisor cannot be reached within ``timeouts.start`` seconds, or has another token.
        ConfigError: another program listens there.
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
        self._rank_info, self._print_error, self._end, self._timeouts = rank_info, print_error, end, timeouts
        self._communicator: Communicator | None = None
        self._busy = False
        self._values: dict[str, Future[str]] = defaultdict(Future)
        self._sending = threading.Lock()
        self._leaving = threading.Event()
        try:
            self._connection = connect(address, token, timeouts, listens=rank_info.launched)
        except RanksError:
            if rank_info.launched:
                self._end_alone(f"launch {ENDED}")
            raise
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host: str = self._connection.getsockname()[0]
        self._send(rank=rank_info.rank, size=rank_info.size, who=f"process {os.getpid()} on {platform.node()}")
        self.set_timeout(timeouts.start)
        for work in (self._receive, self._send_heartbeats):
            threading.Thread(target=work, name="supervisor client", daemon=True).start()

    def follow(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def set_timeout(self, seconds: float) -> None:
        """Apply ``training.timeout`` to messages of the supervisor; rank 0 passes it on to it."""
        self._timeout = seconds
        self._connection.settimeout(max(seconds, 4 * self._timeouts.heartbeat))
        if self._rank_info.rank == 0:
            self._send(timeout=seconds)

    @contextmanager
    def busy(self) -> Iterator[None]:
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def put(self, key: str, value: str) -> None:
        self._send(put=key, value=value)

    def get(self, key: str) -> str:
        value = self._values[key]
        self._send(get=key)
        return value.result()

    def listen(self, key: str, callback: Callable[[], object]) -> None:
        self._values[key].add_done_callback(lambda value: callback())
        self._send(get=key)

    def fail(self, cause: str, code: int = 2, by_all: bool = False) -> None:
        """Report why this rank cannot continue; the supervisor then ends the job. Does not return.

        by_all: all ranks report the same, so the message names none
        """
        self._send(failed=cause, code=code, by_all=by_all)
        time.sleep(self._timeout)  # the receiving thread ends this process as soon as the supervisor orders it
        self._end_alone(cause, code)

    def leave(self) -> None:
        """This rank is done, and so are the others: a barrier must come before this call."""
        self._leaving.set()
        self._send(bye=True)
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _send(self, **message: object) -> None:
        with suppress(OSError), self._sending:  # the receiving thread finds the connection lost, too
            self._connection.sendall(encode(**message))

    def _send_heartbeats(self) -> None:
        while not self._leaving.wait(self._timeouts.heartbeat):
            number, waits = (0, None) if self._communicator is None else self._communicator.progress()
            self._send(number=number, waits=waits, busy=self._busy)

    def _receive(self) -> None:
        cause = ENDED
        try:
            with self._connection, self._connection.makefile("rb") as lines:
                for message in map(decode, lines):
                    if "end" in message:
                        self._stop(message["end"])
                        return
                    if "key" in message and not self._values[message["key"]].done():
                        self._values[message["key"]].set_result(message["value"])
        except TimeoutError:
            cause = f"has been silent for {self._timeout:g} s: is it stopped?"
        except (OSError, ValueError):
            pass
        if not self._leaving.is_set():
            self._end_alone(f"{'launch' if self._rank_info.launched else 'rank 0'} {cause}")

    def _end_alone(self, cause: str, code: int = 2) -> None:
        """End this process without the supervisor; one rank on each machine prints the cause."""
        info = self._rank_info
        # Without launch, the supervisor was a thread of rank 0, which is lost too: rank 1 prints for its machine.
        prints = info.local_rank == 0 or (info.rank == 1 and not info.launched)
        if prints:
            self._print_error(f"{cause} (seen from rank {info.rank})")
            sys.stderr.flush()
        time.sleep(self._timeouts.flush if prints else self._timeouts.abort_delay)
        self._stop(code)

    def _stop(self, code: int) -> None:
        self._leaving.set()
        try:
            if self._communicator is not None:
                self._communicator.abort()
        finally:
            self._end(code)
