"""Attacks on the ports of a job by unauthenticated clients do not affect the job."""

import random
import socket
import threading
from pathlib import Path

import pytest

from tests.reliability import network
from tests.reliability.attacks import KINDS, attack


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="this system has no /proc")
def test_attacks_of_every_kind_do_not_change_a_bit_of_a_job():
    assert network.main(["--quick"]) == 0


@pytest.mark.parametrize("kind", ["wrong proof", "messages of a rank"])
def test_a_listener_that_authenticates_every_client_is_found(kind, rng):

    def authenticate_all() -> None:
        with server.accept()[0] as connection:
            connection.sendall(bytes(32))
            connection.recv(64)
            connection.sendall(b"a proof for every client".ljust(32))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=authenticate_all)
        thread.start()
        assert kind in KINDS
        assert attack(kind, server.getsockname()[1], random.Random(int(rng.integers(1000)))) == "authenticated"
        thread.join(10)
