"""A job whose ports strangers connect to all the time ends as if they were not there."""

import random
import socket
import threading
from pathlib import Path

import pytest
from tests.reliability.strangers import KINDS, attempt

from tests.reliability import network


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="this system has no /proc")
def test_strangers_of_every_kind_do_not_change_a_bit_of_a_job():
    assert network.main(["--quick"]) == 0


@pytest.mark.parametrize("kind", ["wrong proof", "claims of a rank"])
def test_a_listener_that_proves_itself_to_a_stranger_is_found(kind, rng):
    """The harness must not be blind: a listener that answers everybody is one that it reports."""

    def welcome_all() -> None:
        with server.accept()[0] as connection:
            connection.sendall(bytes(32))
            connection.recv(64)
            connection.sendall(b"a proof for everybody".ljust(32))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=welcome_all)
        thread.start()
        assert kind in KINDS
        assert attempt(kind, server.getsockname()[1], random.Random(int(rng.integers(1000)))) == "PROVEN"
        thread.join(10)
