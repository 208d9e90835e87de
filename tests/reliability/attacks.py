"""Attacks on a port of a running job by a client that does not know its token, and how to find the ports."""

import hashlib
import hmac
import json
import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHALLENGE = 32
MESSAGES = [
    {"rank": 1, "size": 2, "who": "\x1b[31m" + "x" * 500, "process": 1},
    {"rank": 0, "size": 9, "who": "another size"},
    {"failed": "ended by an unauthenticated client", "code": 0, "by_all": True},
    {"timeout": float("nan")},
    {"end": 0},
    {"put": "stop", "value": ""},
    {"bye": True},
]
"""Messages with which a rank would end the job, replace another rank or disable the timeout."""


def _messages() -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in MESSAGES)


def _proof(token: bytes, challenge: bytes) -> bytes:
    return hmac.digest(token, b"peer" + challenge, hashlib.sha256)


def _receive_challenge(connection: socket.socket) -> bytes:
    received = b""
    while len(received) < CHALLENGE and (part := connection.recv(CHALLENGE - len(received))):
        received += part
    return received


def http(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * rng.randint(1, 20))


def random_bytes(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(rng.randbytes(rng.randint(1, 5000)))


def messages_of_a_rank(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(_messages())


def partial_handshake(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(rng.randbytes(rng.randint(1, 2 * CHALLENGE - 1)))
    time.sleep(rng.uniform(0, 0.5))


def wrong_proof(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(rng.randbytes(2 * CHALLENGE) + _messages())


def guessed_token(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    """The proof for the empty token, a common word, or 64 random hexadecimal digits, as `launch` draws them."""
    token = rng.choice([b"", b"secret", rng.randbytes(32).hex().encode()])
    connection.sendall(rng.randbytes(CHALLENGE) + _proof(token, challenge) + _messages())


def reflected_challenge(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    """A reflection attack: the listener's own challenge as the client's challenge, and as its proof."""
    connection.sendall(challenge + challenge + _messages())


def slow(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    for _ in range(rng.randint(3, 12)):
        connection.sendall(rng.randbytes(1))
        time.sleep(0.1)


def idle(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    time.sleep(rng.uniform(0, 2))


def huge_line(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(b"x" * (1 << 22))


def deep_json(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    connection.sendall(b"[" * 100_000 + b"\n")


def reset(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    """Close with a TCP reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def flood(connection: socket.socket, challenge: bytes, rng: random.Random) -> None:
    """A hundred connections at once, more than are kept open without authentication."""
    others = []
    with suppress(OSError):
        for _ in range(100):
            others.append(socket.create_connection(connection.getpeername(), timeout=2))
    time.sleep(rng.uniform(0, 0.3))
    for each in others:
        each.close()


KINDS: dict[str, Callable[[socket.socket, bytes, random.Random], None]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (
        *(http, random_bytes, messages_of_a_rank, partial_handshake, wrong_proof, guessed_token, reflected_challenge),
        *(slow, idle, huge_line, deep_json, reset, flood),
    )
}


def attack(kind: str, port: int, rng: random.Random) -> str:
    """Attack ``port`` once. Returns "refused" if nothing listens there any more, "closed", or "authenticated" if the
    listener answers with more than the zeros that refuse a client, as it does to clients that know the token."""
    received = b""
    try:
        connection = socket.create_connection(("127.0.0.1", port), timeout=2)
    except OSError:
        return "refused"
    with connection, suppress(OSError):
        KINDS[kind](connection, _receive_challenge(connection), rng)
        connection.settimeout(0.2)
        while len(received) < 2000 and (part := connection.recv(1000)):
            received += part
    return "authenticated" if received.strip(b"\0") else "closed"


def process_tree(pid: int) -> list[int]:
    """The process and its descendants."""
    children = []
    with suppress(OSError):  # it has just ended
        children = [path.read_text(encoding="ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(process for task in children for child in task for process in process_tree(int(child)))]


def processes_in(folder: Path) -> int:
    """The number of processes whose working directory is ``folder``."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            found += path.readlink() == folder
    return found


def listening_ports(pid: int) -> set[int]:
    """The TCP ports of 127.0.0.1 on which the process or a descendant listens."""
    inodes = set()
    for process in process_tree(pid):
        with suppress(OSError):
            for path in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(path.readlink().name)
    ports = set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").split("\n")[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            assert words[1].startswith("0100007F:"), f"listens beyond loopback: {words[1]}"
            ports.add(int(words[1].rpartition(":")[2], 16))
    return ports
