"""The supervisor of the ranks: where they meet and exchange short texts, and which notices when one dies or hangs.

Each rank keeps one connection to the supervisor and says twice a second that it lives, in which collective it waits and
for how long. The supervisor ends the whole job, with one message, when a rank reports a failure, closes its connection
without a farewell (killed, crashed), is silent for longer than the timeout (stopped, unreachable), or keeps the others
waiting for longer than that. It runs in a thread of ``launch``, else of rank 0.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from minitransformer.distributed.listener import Listener
from minitransformer.distributed.supervision.health import Failure, HealthMonitor
from minitransformer.distributed.supervision.messages import MessageSocket
from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import ConfigError

NOT_FROM_A_RANK = (ValueError, KeyError, TypeError, OverflowError)
"""What reading a message raises that no rank sends."""


class Supervisor:
    """Waits for ``size`` ranks at ``host``:``port`` (0: any that is free) and watches them, in a thread of its own.

    print_error: called once if the job must end, with the message
    token: only who proves to know it is a rank
    explain: what is known of the end of a rank that closed its connection without a farewell

    Attributes:
        port: where it listens.
        monitor: what is known of the ranks.
        failure: why the job had to end, or None.
        ended: set when all ranks have left, or have been told to end.

    Raises:
        ConfigError: the port is in use, or the address is not this machine's.
    """

    def __init__(
        self,
        size: int,
        print_error: Callable[[str], object],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        explain: Callable[[int], str] = lambda rank: "it was killed, or it crashed",
        timeouts: Timeouts = TIMEOUTS,
    ):
        try:
            self._listener = Listener(host, port, token, self._welcome, timeouts)
        except (OSError, OverflowError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and (error.errno or 0) > 0 else error
            raise ConfigError(
                f"ranks: port {port} must be free at {host or 'this machine'}, got {reason}; set another MASTER_PORT, "
                "and MASTER_ADDR to the machine of rank 0"
            ) from error
        self.port = self._listener.port
        self.monitor = HealthMonitor(size, timeouts)
        self.failure: Failure | None = None
        self.ended = threading.Event()
        self._print_error, self._explain, self._timeouts = print_error, explain, timeouts
        self._newcomers: list[MessageSocket] = []  # they know the token, but have not said which rank they are
        self._ranks: dict[int, MessageSocket] = {}
        self._values: dict[str, str] = {}
        self._pending_gets: dict[int, list[str]] = {}  # of each rank, the keys whose values are not there yet
        self._last_beat = time.monotonic()
        threading.Thread(target=self._run, name="supervisor", daemon=True).start()

    def _run(self) -> None:
        """Until all have left, or the job must end."""
        while self.failure is None and not self.monitor.all_have_left():
            self._listener.poll(self._timeouts.heartbeat / 2)
            self._beat()
            self.failure = self.monitor.judge()
        if self.failure is not None:
            self._print_error(self.failure.message)
            time.sleep(self._timeouts.flush)
            self._end_all(self.failure.code)
        for client in (*self._newcomers, *self._ranks.values()):
            client.close()
        self._listener.close()
        self.ended.set()

    def _end_all(self, code: int) -> None:
        """Tell all to end, rank 0 last: this may be a thread of its process. Ranks that still come are told as well."""
        for client in (*self._newcomers, *(self._ranks[rank] for rank in sorted(self._ranks, reverse=True))):
            with suppress(OSError, ValueError, KeyError):
                self._listener.unwatch(client.socket)
            with suppress(OSError):
                client.send(end=code)
        until = time.monotonic() + self._timeouts.other_failures
        while (left := until - time.monotonic()) > 0:  # however many keep coming
            self._listener.poll(left)

    def _beat(self) -> None:
        if time.monotonic() - self._last_beat > self._timeouts.heartbeat:
            self._last_beat = time.monotonic()
            for rank, client in self._ranks.items():
                if not self.monitor.ranks[rank].left:
                    with suppress(OSError):  # a closed connection is found when it is read
                        client.send()

    def _welcome(self, connection: socket.socket) -> None:
        """A connection has proved that it belongs to the job."""
        client = MessageSocket(connection, self._timeouts.send)
        self._newcomers.append(client)
        if self.failure is None:
            self._listener.watch(connection, lambda: self._hello(client))
        else:
            with suppress(OSError):
                client.send(end=self.failure.code)

    def _hello(self, client: MessageSocket) -> None:
        """A newcomer says which rank it is. Whoever does not speak as a rank is sent away."""
        try:
            messages = client.receive()
            if messages == []:
                return
            hello, *more = messages or [{}]
            rank, size, who = int(hello["rank"]), int(hello["size"]), str(hello["who"])
        except NOT_FROM_A_RANK:
            self._newcomers.remove(client)
            self._listener.unwatch(client.socket)
            client.close()
            return
        if self.monitor.comes(rank, size, who):
            self._newcomers.remove(client)
            self._ranks[rank], self._pending_gets[rank] = client, []
            self._listener.unwatch(client.socket)
            self._listener.watch(client.socket, lambda: self._hear(rank))
            self._hear(rank, more)

    def _hear(self, rank: int, messages: list[dict] | None = None) -> None:
        """Take what a rank says, ``messages`` if they have been read already; after nonsense it has left for us."""
        client = self._ranks[rank]
        try:
            messages = client.receive() if messages is None else messages
            for message in messages or ():
                self._take(rank, message)
        except NOT_FROM_A_RANK:
            messages = None
        if messages is None:
            self.monitor.ends(rank, self._explain)
        if self.monitor.ranks[rank].left:
            self._listener.unwatch(client.socket)

    def _take(self, rank: int, message: dict) -> None:
        self.monitor.take(rank, message)
        if "put" in message:
            self._values[str(message["put"])] = str(message["value"])
            for each in self._ranks:
                self._send_values(each)
        if "get" in message:
            self._pending_gets[rank].append(str(message["get"]))
            self._send_values(rank)

    def _send_values(self, rank: int) -> None:
        """Send the values that this rank has asked for and that are there."""
        pending = self._pending_gets[rank]
        for key in [key for key in pending if key in self._values]:
            pending.remove(key)
            with suppress(OSError):
                self._ranks[rank].send(key=key, value=self._values[key])
