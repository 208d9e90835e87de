"""TCP connections between processes that share a secret token: nobody else is listened to.

Both sides prove that they know the token without sending it: each sends a random challenge and answers the other's with
HMAC-SHA256(token, role + challenge), compared in constant time.

    listener                             peer
      -------- its challenge ------------>
      <------- challenge, proof ----------
      -------- its proof ---------------->    from here on the connection is used; zeros: the peer's proof is wrong
"""

import hashlib
import hmac
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import ConfigError, RanksError

CHALLENGE = 32
"""Bytes of a challenge, and of a proof."""

MAX_STRANGERS = 64
"""Connections without a proof that are held; the oldest makes room for a new one. A rank's proof takes milliseconds."""


@dataclass
class Stranger:
    """A connection that has not proved anything yet."""

    connection: socket.socket
    since: float
    challenge: bytes
    received: bytes = b""


class Listener:
    """Listens at ``host``:``port`` (0: any free port); connections that know ``token`` are handed to ``welcome``.

    It shares one selector with whoever reads those connections: ``poll`` calls the handler of each that is ready.

    Attributes:
        port: where it listens.

    Raises:
        OSError, OverflowError: the port is in use or impossible, or the address is not this machine's.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        welcome: Callable[[socket.socket], object],
        timeouts: Timeouts = TIMEOUTS,
    ):
        self._server = socket.create_server((host, port))
        self._server.setblocking(False)
        self.port: int = self._server.getsockname()[1]
        self._token, self._welcome, self._timeouts = token, welcome, timeouts
        self._strangers: dict[int, Stranger] = {}  # by file descriptor, the oldest first
        self._paused_until: float | None = None
        # One selector for good: where the system has epoll it tells of events in their order, so that of ranks that end
        # one after the other the first is found, however late one looks.
        self._selector = selectors.DefaultSelector()
        self.watch(self._server, self._accept)

    def watch(self, connection: socket.socket, ready: Callable[[], object]) -> None:
        """``poll`` calls ``ready`` whenever ``connection`` can be read."""
        self._selector.register(connection, selectors.EVENT_READ, ready)

    def unwatch(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)

    def poll(self, seconds: float) -> None:
        """Wait so long at most, and serve what has come."""
        for key, _ in self._selector.select(seconds):
            if self._selector.get_map().get(key.fd) is key:  # not gone by what was done for one before it
                key.data()
        now = time.monotonic()
        for stranger in list(self._strangers.values()):
            if now - stranger.since > self._timeouts.handshake:
                self._dismiss(stranger)
        if self._paused_until is not None and now > self._paused_until:
            self._paused_until = None
            self.watch(self._server, self._accept)

    def close(self) -> None:
        for stranger in list(self._strangers.values()):
            self._dismiss(stranger)
        self._selector.close()
        self._server.close()

    def _accept(self) -> None:
        try:
            connection = self._server.accept()[0]
        except (BlockingIOError, ConnectionError):  # whoever it was has gone again
            return
        except OSError:  # no file descriptor is left: asking again at once would keep a core busy
            self._paused_until = time.monotonic() + self._timeouts.accept_pause
            self.unwatch(self._server)
            return
        if len(self._strangers) >= MAX_STRANGERS:
            self._dismiss(next(iter(self._strangers.values())))
        connection.setblocking(False)
        stranger = Stranger(connection, time.monotonic(), secrets.token_bytes(CHALLENGE))
        self._strangers[connection.fileno()] = stranger
        self.watch(connection, lambda: self._answer(stranger))
        with suppress(OSError):  # a connection that is gone again is found when it is read
            connection.send(stranger.challenge)

    def _answer(self, stranger: Stranger) -> None:
        """Read the peer's challenge and proof; no byte beyond them, which is for whoever uses the connection."""
        connection = stranger.connection
        try:
            received = connection.recv(2 * CHALLENGE - len(stranger.received))
        except BlockingIOError:
            return
        except OSError:
            received = b""
        stranger.received += received
        if not received:
            self._dismiss(stranger)
        if not received or len(stranger.received) < 2 * CHALLENGE:
            return
        challenge, proof = stranger.received[:CHALLENGE], stranger.received[CHALLENGE:]
        knows = hmac.compare_digest(proof, _proof(self._token, "peer", stranger.challenge))
        with suppress(OSError):
            connection.send(_proof(self._token, "listener", challenge) if knows else bytes(CHALLENGE))
        if not knows:
            self._dismiss(stranger)
            return
        del self._strangers[connection.fileno()]
        self.unwatch(connection)
        connection.settimeout(self._timeouts.send)
        self._welcome(connection)

    def _dismiss(self, stranger: Stranger) -> None:
        del self._strangers[stranger.connection.fileno()]
        self.unwatch(stranger.connection)
        stranger.connection.close()


def connect(address: tuple[str, int], token: str, patience: float, timeouts: Timeouts = TIMEOUTS) -> socket.socket:
    """A connection to the ``Listener`` at ``address``, which may not listen yet, after both sides gave their proof.

    Raises:
        RanksError: nobody listens there within ``patience`` seconds, or who does has another token.
        ConfigError: who listens there gives no answer, and so is no part of the job.
    """
    where = f"{address[0]}:{address[1]}"
    connection = _connection(address, patience, timeouts)
    until = time.monotonic() + patience
    while True:
        try:
            answer, wanted = _introduce(connection, token)
            break
        except OSError as error:
            connection.close()
            if isinstance(error, TimeoutError) or time.monotonic() > until:
                raise ConfigError(
                    f"ranks: rank 0 must answer at {where} within {timeouts.handshake:g} s, got {error}; does another "
                    "program listen there? Set another MASTER_PORT"
                ) from error
            time.sleep(0.1)  # other connections have crowded this one out
            connection = _connection(address, until - time.monotonic(), timeouts)
    if not hmac.compare_digest(answer, wanted):
        connection.close()
        raise RanksError(
            f"ranks: {where} must know this job's token, got a process with another one; set the same "
            "MINITRANSFORMER_TOKEN for all ranks, or another MASTER_PORT"
        )
    connection.settimeout(None)
    return connection


def _connection(address: tuple[str, int], patience: float, timeouts: Timeouts) -> socket.socket:
    """A connection to whoever listens at ``address`` within ``patience`` seconds."""
    until = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection(
                address, timeout=max(0.1, min(timeouts.send, until - time.monotonic()))
            )
            connection.settimeout(timeouts.handshake)
            return connection
        except OSError as error:
            if time.monotonic() > until:
                raise RanksError(
                    f"ranks: rank 0 must listen at {address[0]}:{address[1]}, got {error.strerror or error} for "
                    f"{patience:g} s; was it started, and are MASTER_ADDR and MASTER_PORT its own?"
                ) from error
            time.sleep(0.1)


def _introduce(connection: socket.socket, token: str) -> tuple[bytes, bytes]:
    """The listener's proof, and the right one."""
    theirs, ours = receive_exactly(connection, CHALLENGE), secrets.token_bytes(CHALLENGE)
    connection.sendall(ours + _proof(token, "peer", theirs))
    return receive_exactly(connection, CHALLENGE), _proof(token, "listener", ours)


def _proof(token: str, role: str, challenge: bytes) -> bytes:
    return hmac.digest(token.encode(), role.encode() + challenge, hashlib.sha256)


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    """``count`` bytes; ConnectionError if the other side closes before."""
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise ConnectionError("the other side has closed its connection")
        received += part
    return received
