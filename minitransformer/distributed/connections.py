"""TCP connections between processes that share a secret token: all others are refused.

Both sides prove that they know the token without sending it: each sends a random challenge and answers the other's with
HMAC-SHA256(token, role + challenge), compared in constant time.

    listener                             peer
      -------- its challenge ------------>
      <------- challenge, proof ----------
      -------- its proof ---------------->    from here on the connection is used; zeros: the peer's proof is wrong
"""

import asyncio
import hashlib
import hmac
import secrets
import socket
import time
from collections.abc import Awaitable, Callable

from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import ConfigError, RanksError

CHALLENGE = 32
"""Bytes of a challenge, and of a proof."""

MAX_UNAUTHENTICATED = 64
"""Connections without a proof that are held; a new one displaces the oldest. A rank's proof takes milliseconds."""


async def serve(
    server: socket.socket,
    token: str,
    handle: Callable[[socket.socket], Awaitable[object]],
    timeouts: Timeouts = TIMEOUTS,
) -> None:
    """Accept connections at ``server`` until cancelled, and ``handle`` those that prove to know ``token``."""
    unauthenticated: list[asyncio.Task] = []  # the oldest first

    async def admit(connection: socket.socket) -> None:
        try:
            async with asyncio.timeout(timeouts.handshake):
                await _check_proof(connection, token)
        except (OSError, asyncio.CancelledError):  # among them the timeout, and a newer connection in its place
            connection.close()
            return
        finally:
            unauthenticated.remove(asyncio.current_task())
        await handle(connection)

    server.setblocking(False)
    with server:
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    connection, _ = await asyncio.get_running_loop().sock_accept(server)
                except ConnectionError:  # the peer has disconnected already
                    continue
                except OSError:  # no file descriptor is left: trying again at once would keep a core busy
                    await asyncio.sleep(timeouts.heartbeat)
                    continue
                if len(unauthenticated) >= MAX_UNAUTHENTICATED:
                    unauthenticated[0].cancel()
                unauthenticated.append(tasks.create_task(admit(connection)))
                await asyncio.sleep(0)  # however many connect, those that are here take their turns


async def _check_proof(connection: socket.socket, token: str) -> None:
    """The listener's side of the handshake; ConnectionError: the peer does not know the token, or has gone."""
    loop = asyncio.get_running_loop()
    ours, received = secrets.token_bytes(CHALLENGE), b""
    await loop.sock_sendall(connection, ours)
    while len(received) < 2 * CHALLENGE:  # and no byte more: what follows is for ``handle``
        part = await loop.sock_recv(connection, 2 * CHALLENGE - len(received))
        if not part:
            raise ConnectionError("the peer has closed its connection")
        received += part
    theirs, proof = received[:CHALLENGE], received[CHALLENGE:]
    is_right = hmac.compare_digest(proof, _proof(token, "peer", ours))
    await loop.sock_sendall(connection, _proof(token, "listener", theirs) if is_right else bytes(CHALLENGE))
    if not is_right:
        raise ConnectionError("the peer does not know the token")


def connect(
    address: tuple[str, int], token: str, timeouts: Timeouts = TIMEOUTS, listens: bool = False
) -> socket.socket:
    """A connection to the process that serves ``address``, which may not listen yet, after both gave their proof.

    listens: it has begun to listen before, so that a connection refused now means that it has ended

    Raises:
        RanksError: nobody listens there within ``timeouts.start`` seconds, or the process that does has another token.
        ConfigError: the process that listens there does not answer, so it is not part of the job.
    """
    where, until = f"{address[0]}:{address[1]}", time.monotonic() + timeouts.start
    while True:
        try:
            connection = socket.create_connection(address, timeout=timeouts.handshake)
        except OSError as error:
            if time.monotonic() > until or (listens and isinstance(error, ConnectionRefusedError)):
                raise RanksError(
                    f"ranks: rank 0 must listen at {where}, got {error.strerror or error} for {timeouts.start:g} s; "
                    "was it started, and are MASTER_ADDR and MASTER_PORT its own?"
                ) from error
        else:
            try:
                _introduce(connection, token, where)
                connection.settimeout(None)
                return connection
            except OSError as error:  # newer connections may have displaced this one
                connection.close()
                if isinstance(error, TimeoutError) or time.monotonic() > until:
                    raise ConfigError(
                        f"ranks: rank 0 must answer at {where} within {timeouts.handshake:g} s, got {error}; does "
                        "another program listen there? Set another MASTER_PORT"
                    ) from error
        time.sleep(0.1)


def _introduce(connection: socket.socket, token: str, where: str) -> None:
    """The peer's side of the handshake; RanksError: the listener at ``where`` does not know the token."""
    ours, theirs, answer = secrets.token_bytes(CHALLENGE), bytearray(CHALLENGE), bytearray(CHALLENGE)
    receive_into(connection, theirs)
    connection.sendall(ours + _proof(token, "peer", theirs))
    receive_into(connection, answer)
    if not hmac.compare_digest(answer, _proof(token, "listener", ours)):
        connection.close()
        raise RanksError(
            f"ranks: {where} must know this job's token, got a process with another one; set the same "
            "MINITRANSFORMER_TOKEN for all ranks, or another MASTER_PORT"
        )


def _proof(token: str, role: str, challenge: bytes | bytearray) -> bytes:
    key = token.encode("utf-8", "surrogateescape")  # a variable of the environment may hold any bytes
    return hmac.digest(key, role.encode() + challenge, hashlib.sha256)


def receive_into(connection: socket.socket, buffer: bytearray | memoryview) -> None:
    """Fill ``buffer`` with the bytes that arrive; ConnectionError if the other side closes before it is full."""
    rest = memoryview(buffer)
    while rest:
        received = connection.recv_into(rest)
        if not received:
            raise ConnectionError("the other side has closed its connection")
        rest = rest[received:]
