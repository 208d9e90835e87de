"""The supervisor of the ranks: it keeps their key-value store, and notices when one of them dies or hangs.

Each rank keeps one connection to the supervisor and sends a heartbeat twice a second, with the collective in which it
waits and for how long. The supervisor ends the whole job, with one message, when a rank reports a failure, closes its
connection without having left (killed, crashed), is silent for longer than the timeout (stopped, unreachable), or keeps
the others waiting for longer than that. It runs in a thread of ``launch``, else of rank 0.
"""

import asyncio
import socket
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from minitransformer.distributed.connections import serve
from minitransformer.distributed.supervision.health import Failure, HealthMonitor
from minitransformer.distributed.supervision.messages import MAX_LINE, decode, encode
from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import ConfigError

LOST = (OSError, ValueError, KeyError, TypeError, OverflowError)
"""What reading from a connection raises that is gone, or that sends what no rank sends."""


class Supervisor:
    """Accepts ``size`` ranks at ``host``:``port`` (0: any free port) and monitors them, in a thread of its own.

    print_error: called once if the job must end, with the message
    token: the secret that all ranks of the job know; connections without it are refused
    explain: returns how a rank ended that closed its connection without having left

    Attributes:
        port: where it listens.
        monitor: what is known of the ranks.
        failure: why the job had to end, or None.
        ended: set when all ranks have left, or have been ordered to end.

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
            self._server = socket.create_server((host, port))
        except OSError as error:
            reason = error.strerror.partition(" (")[0]  # what follows is the address once more
            raise ConfigError(
                f"ranks: port {port} must be free at {host or 'this machine'}, got {reason}; set another MASTER_PORT, "
                "and MASTER_ADDR to the machine of rank 0"
            ) from error
        self.port: int = self._server.getsockname()[1]
        self.monitor = HealthMonitor(size, timeouts)
        self.failure: Failure | None = None
        self.ended = threading.Event()
        self._print_error, self._token, self._explain, self._timeouts = print_error, token, explain, timeouts
        self._connections: list[asyncio.StreamWriter] = []
        self._ranks: dict[int, asyncio.StreamWriter] = {}
        self._values: dict[str, asyncio.Future[str]] = defaultdict(asyncio.Future)
        self._closed = asyncio.Event()  # a connection has been closed, and with it perhaps the job has ended
        threading.Thread(target=lambda: asyncio.run(self._run()), name="supervisor", daemon=True).start()

    async def _run(self) -> None:
        """Until all have left, or the job must end."""
        background = serve(self._server, self._token, self._talk, self._timeouts), self._send_heartbeats()
        tasks = [asyncio.create_task(each) for each in background]
        while self.failure is None and not self.monitor.all_have_left():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), self._timeouts.heartbeat / 2)
            self._closed.clear()
            self.failure = self.monitor.judge()
        if self.failure is not None:
            self._print_error(self.failure.message)
            await asyncio.sleep(self._timeouts.flush)
            for connection in sorted(self._connections, key=lambda each: each is self._ranks.get(0)):
                self._send(connection, end=self.failure.code)  # rank 0 last: this may be a thread of its process
            await asyncio.sleep(self._timeouts.other_failures)  # ranks that still connect are ordered to end as well
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for connection in self._connections:
            connection.close()
        self.ended.set()

    async def _send_heartbeats(self) -> None:
        while True:
            for connection in self._ranks.values():
                self._send(connection)
            await asyncio.sleep(self._timeouts.heartbeat)

    async def _talk(self, connection: socket.socket) -> None:
        """Read what a process of the job sends, until it leaves; one that does not speak as a rank is disconnected."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_LINE)
        self._connections.append(writer)
        if self.failure is not None:
            self._send(writer, end=self.failure.code)
        try:
            hello = decode(await reader.readline())
            rank, size, who = int(hello["rank"]), int(hello["size"]), str(hello["who"])
        except LOST:
            writer.close()
            return
        if self.monitor.add(rank, size, who):
            self._ranks[rank] = writer
            with suppress(*LOST):
                async for line in reader:
                    self._take(rank, decode(line))
            self.monitor.remove(rank, self._explain)
        self._closed.set()

    def _take(self, rank: int, message: dict) -> None:
        self.monitor.take(rank, message)
        if "put" in message:
            value, text = self._values[str(message["put"])], str(message["value"])
            if not value.done():
                value.set_result(text)
        if "get" in message:
            key, connection = str(message["get"]), self._ranks[rank]
            self._values[key].add_done_callback(lambda value: self._send(connection, key=key, value=value.result()))

    def _send(self, connection: asyncio.StreamWriter, **message: object) -> None:
        if not connection.is_closing():
            connection.write(encode(**message))
