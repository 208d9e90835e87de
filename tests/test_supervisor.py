"""The supervisor: what it passes on, and what it says when a rank fails, is missing or is stuck."""

import re
import select
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from rank_jobs import TOKEN, Supervised, free_port, in_threads, received_until_close, wait_for

from minitransformer.distributed.connections import connect
from minitransformer.distributed.single import SingleProcess
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.health import HealthMonitor
from minitransformer.distributed.supervision.messages import MAX_LINE, encode
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.supervision.supervisor import Supervisor
from minitransformer.distributed.timeouts import TIMEOUTS, Timeouts
from minitransformer.errors import ConfigError, RanksError, printable


def by_hand(job: Supervised, sent: bytes = b"") -> socket.socket:
    """A connection that belongs to the job, over which a test sends what it likes."""
    connection = connect(job.address, TOKEN)
    with suppress(ConnectionError):
        connection.sendall(sent)
    return connection


def hello(rank: int, size: int) -> bytes:
    return encode(rank=rank, size=size, who="x")


def test_values_reach_all_ranks_in_the_order_of_ranks():
    job = Supervised(3)

    def work(rank):
        client = job.client(rank)
        ranks = SingleProcess(rank, 3, client)
        time.sleep(0.05 * (2 - rank))  # the last comes first
        texts = [ranks.gather_text(key, f"{key}{rank}") for key in ("a", "b")]
        client.leave()
        return texts

    assert in_threads(3, work) == [[["a0", "a1", "a2"], ["b0", "b1", "b2"]]] * 3
    assert job.supervisor.ended.wait(10) and job.messages == []


NO_HELLO = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"[1, 2]\n",
    b'{"rank": "x"}\n',
    b'{"rank": 1e999, "size": 1, "who": ""}\n',
    b'{"rank": 0, "size": 1}\n',
    b"[" + b" " * MAX_LINE,
    b"[" * 5000 + b"\n",
    b"\xff\n",
]


@pytest.mark.parametrize("sent", NO_HELLO, ids=lambda sent: repr(sent[:20]))
def test_a_connection_that_does_not_speak_as_a_rank_is_closed(sent):
    job = Supervised(1)
    with by_hand(job, sent) as connection:
        assert received_until_close(connection) == b""
    job.client(0).leave()
    assert job.supervisor.ended.wait(10) and job.messages == []


NO_RANK_SENDS = [
    b'{"put": "x"}',
    b'{"number": "x", "waits": null, "busy": false}',
    b'{"number": 1, "waits": [], "busy": false}',
    b'{"number": 1e999, "waits": null, "busy": false}',
    b'{"timeout": "soon"}',
    b'{"failed": 1, "code": 2, "by_all": false}',
    b'{"failed": "x", "code": null, "by_all": false}',
    b"[1]",
    b"GET /",
]


@pytest.mark.parametrize("sent", NO_RANK_SENDS)
def test_a_rank_that_sends_no_valid_message_ends_the_job(sent):
    job = Supervised(1)
    with by_hand(job, hello(0, 1) + sent + b"\n"):
        assert job.supervisor.ended.wait(10)
    assert job.messages == ["rank 0 (x) ended unexpectedly: it was killed, or it crashed"]
    assert job.supervisor.failure.code == 2


def test_late_ranks_are_waited_for_however_short_the_timeout():
    monitor = HealthMonitor(2, Timeouts(start=20.0))
    assert monitor.add(0, 2, "x")
    monitor.take(0, {"timeout": 0.05})
    time.sleep(0.1)
    monitor.take(0, {"number": 1, "waits": 0.1, "busy": False})
    assert monitor.judge() is None
    assert monitor.add(1, 2, "x")
    time.sleep(0.1)
    for rank in (0, 1):
        monitor.take(rank, {"number": 1 - rank, "waits": 0.2 * (1 - rank), "busy": False})
    assert monitor.judge().message.startswith("rank 1 must reach collective 1 within 0.05 s")


def test_a_failure_is_shown_in_one_short_line():
    assert printable("a\x1b[31mred\nb\x00", 100) == "a\\x1b[31mred b\\x00"
    assert printable("Größe 5 µm", 100) == "Größe 5 µm"
    assert printable("x" * 50, 10) == "xxxxxxx..."
    job = Supervised(1)
    failed = encode(failed="\x1b]0;title\x07" + "long " * 10**4, code=3, by_all=False)
    with by_hand(job, hello(0, 1) + failed):
        assert job.supervisor.ended.wait(10)
    (message,) = job.messages
    assert message.isprintable() and len(message) <= 2000
    assert message.startswith("rank 0: \\x1b]0;title\\x07long long")


def test_the_end_closes_all_connections_and_only_ranks_are_ordered_to_end():
    job = Supervised(1)
    unauthenticated, rank = socket.create_connection(job.address), by_hand(job, hello(0, 1))
    rank.sendall(encode(failed="cause", code=5, by_all=True))
    assert job.supervisor.ended.wait(10)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(job.address)
    assert job.messages == ["cause"]
    for connection, is_rank in ((unauthenticated, False), (rank, True)):
        with connection:
            assert (encode(end=5) in received_until_close(connection)) == is_rank


def test_a_rank_that_connects_after_the_end_is_ordered_to_end():
    job = Supervised(2)
    with by_hand(job, hello(1, 3)) as wrong:
        wait_for(lambda: encode(end=2) in wrong.recv(100))
        with by_hand(job) as late:
            assert encode(end=2) in received_until_close(late)


def test_a_callback_is_called_once_however_often_and_whenever_a_key_is_set():
    job = Supervised(2)
    early, late = (job.client(rank) for rank in range(2))
    called = []
    early.listen("key", lambda: called.append("early"))
    late.put("key", "value")
    wait_for(lambda: called == ["early"])
    late.listen("key", lambda: called.append("late"))
    early.put("key", "again")
    wait_for(lambda: len(called) > 1)
    assert called == ["early", "late"]
    for client in (early, late):
        client.leave()
    assert job.supervisor.ended.wait(10) and job.messages == []


def test_two_processes_cannot_be_the_same_rank():
    job = Supervised(2)
    clients = [job.client(0), job.client(0)]
    wait_for(lambda: len(job.ends) == 2)
    assert re.fullmatch(r"rank 0 must be one process in 0..1, got another one, process \d+ on .*", job.messages[0])
    for client in clients:
        client.leave()


def test_ranks_that_never_connect_are_named():
    job = Supervised(4, Timeouts(start=0.3))
    client = job.client(1)
    wait_for(lambda: job.ends == [(1, 2)])
    assert job.messages == [
        "all 4 ranks must connect within 0.3 s, got no connection from ranks 0, 2, 3; were they started, does "
        "MASTER_ADDR lead here, and have all the same MINITRANSFORMER_TOKEN?"
    ]
    client.leave()


def test_the_lowest_of_several_ranks_that_fail_is_named():
    job = Supervised(3)
    with ExitStack() as stack:
        ranks = [stack.enter_context(by_hand(job, hello(rank, 3))) for rank in range(3)]
        wait_for(job.supervisor.monitor.all_have_come)
        for rank in (2, 1):
            ranks[rank].sendall(encode(failed=f"cause {rank}", code=5, by_all=False))
        assert job.supervisor.ended.wait(10)
        assert job.messages == ["rank 1: cause 1"]
        assert all(encode(end=5) in received_until_close(connection) for connection in ranks)


def test_a_collective_that_nobody_leaves_is_named():
    job = Supervised(2, Timeouts(start=1.0, heartbeat=0.1))
    clients = [job.client(rank) for rank in range(2)]
    waits = [SingleProcess(rank, 2, client).waiting() for rank, client in enumerate(clients)]
    for each in waits:
        each.__enter__()
    wait_for(lambda: job.messages)
    message = job.messages[0]
    assert re.match(r"collective 1 must end within 1 s \(training.timeout\), got all ranks waiting in it", message)
    for client in clients:
        client.leave()


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"ranks: port {port} must be free at 127.0.0.1, got Address already in"):
            Supervisor(2, print, port=port)


def test_a_supervisor_that_is_not_there_is_reported_after_the_timeout():
    port = free_port()
    with pytest.raises(RanksError, match=rf"ranks: rank 0 must listen at 127.0.0.1:{port}, got Connection refused for"):
        SupervisorClient(RankInfo(1, 2, 1), ("127.0.0.1", port), print, timeouts=Timeouts(start=0.3))


def test_a_rank_whose_launcher_has_ended_before_it_connects_ends_at_once():
    messages, began = [], time.monotonic()
    with pytest.raises(SystemExit, match="2"):
        SupervisorClient(RankInfo(0, 2, 0, launched=True), ("127.0.0.1", free_port()), messages.append, end=sys.exit)
    assert messages == ["launch ended unexpectedly: it was killed, or it crashed (seen from rank 0)"]
    assert time.monotonic() - began < TIMEOUTS.start / 4


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="events come in their order only where there is epoll")
@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_of_ranks_that_end_one_after_the_other_the_first_is_named(order, monkeypatch):
    job = Supervised(3)
    ranks = [by_hand(job, hello(rank, 3)) for rank in range(3)]
    wait_for(job.supervisor.monitor.all_have_come)
    both_ended = threading.Event()
    monkeypatch.setattr(job.supervisor.monitor, "take", lambda rank, message: both_ended.wait(10))
    ranks[1].sendall(b"{}\n")
    time.sleep(0.1)  # the supervisor is late: both have ended when it looks
    for rank in order:
        ranks[rank].close()
    both_ended.set()
    assert job.supervisor.ended.wait(10)
    assert job.messages == [f"rank {order[0]} (x) ended unexpectedly: it was killed, or it crashed"]
    ranks[1].close()
