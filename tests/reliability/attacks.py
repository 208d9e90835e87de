"""What strangers do to a port of a running job, one function for each kind, and how to find the ports."""

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
CLAIMS = [
    {"rank": 1, "size": 2, "who": "\x1b[31m" + "x" * 500, "process": 1},
    {"rank": 0, "size": 9, "who": "another size"},
    {"failed": "ended by a stranger", "code": 0, "by_all": True},
    {"timeout": float("nan")},
    {"end": 0},
    {"put": "stop", "value": ""},
    {"bye": True},
]
"""Messages with which a rank would end the job, take another's place or stop the watch."""


def _claims() -> bytes:
    return b"".join(json.dumps(claim).encode() + b"\n" for claim in CLAIMS)


def _proof(token: bytes, challenge: bytes) -> bytes:
    return hmac.digest(token, b"peer" + challenge, hashlib.sha256)


def _challenge(connection: socket.socket) -> bytes:
    received = b""
    while len(received) < CHALLENGE and (part := connection.recv(CHALLENGE - len(received))):
        received += part
    return received


def http(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * rng.randint(1, 20))


def noise(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(rng.randbytes(rng.randint(1, 5000)))


def claims_of_a_rank(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(_claims())


def half_a_hello(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(rng.randbytes(rng.randint(1, 2 * CHALLENGE - 1)))
    time.sleep(rng.uniform(0, 0.5))


def wrong_proof(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(rng.randbytes(2 * CHALLENGE) + _claims())


def proof_with_a_guess(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    """Of the empty token, of a common word, or of 64 hexadecimal digits, as `launch` draws them."""
    token = rng.choice([b"", b"secret", rng.randbytes(32).hex().encode()])
    connection.sendall(rng.randbytes(CHALLENGE) + _proof(token, theirs) + _claims())


def own_challenge_back(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    """The listener's challenge as ours, and as the proof: a listener that answers all would prove itself to itself."""
    connection.sendall(theirs + theirs + _claims())


def slow(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    for _ in range(rng.randint(3, 12)):
        connection.sendall(rng.randbytes(1))
        time.sleep(0.1)


def idle(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    time.sleep(rng.uniform(0, 2))


def huge_line(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(b"x" * (1 << 22))


def deep_json(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    connection.sendall(b"[" * 100_000 + b"\n")


def reset(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    """Gone with a reset instead of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def flood(connection: socket.socket, theirs: bytes, rng: random.Random) -> None:
    """A hundred connections at once, more than are held for those without a proof."""
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
        *(http, noise, claims_of_a_rank, half_a_hello, wrong_proof, proof_with_a_guess, own_challenge_back),
        *(slow, idle, huge_line, deep_json, reset, flood),
    )
}


def attempt(kind: str, port: int, rng: random.Random) -> str:
    """One stranger at ``port``: "refused", "closed", or "PROVEN" if the listener answers with more than the zeros that
    refuse, as it does to those who know the token."""
    received = b""
    try:
        connection = socket.create_connection(("127.0.0.1", port), timeout=2)
    except OSError:
        return "refused"
    with connection, suppress(OSError):
        KINDS[kind](connection, _challenge(connection), rng)
        connection.settimeout(0.2)
        while len(received) < 2000 and (part := connection.recv(1000)):
            received += part
    return "PROVEN" if received.strip(b"\0") else "closed"


def family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    words = []
    with suppress(OSError):  # it has just ended
        words = [path.read_text(encoding="ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(member for children in words for child in children for member in family(int(child)))]


def at_work_in(folder: Path) -> int:
    """How many processes have ``folder`` as their working directory."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            found += path.readlink() == folder
    return found


def listening_ports(pid: int) -> set[int]:
    """The TCP ports of 127.0.0.1 at which the process or a descendant listens."""
    inodes = set()
    for member in family(pid):
        with suppress(OSError):
            for path in Path(f"/proc/{member}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(path.readlink().name)
    ports = set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").split("\n")[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            assert words[1].startswith("0100007F:"), f"listens beyond loopback: {words[1]}"
            ports.add(int(words[1].rpartition(":")[2], 16))
    return ports
