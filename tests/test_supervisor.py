"""The supervisor: what it passes on, and what it says when a rank fails, is missing or is stuck."""

import json
import re
import select
import socket
import threading
import time
from contextlib import suppress

import pytest
from rank_jobs import TOKEN, Supervised, free_port, in_threads, wait_for

from minitransformer.distributed.connections import connect
from minitransformer.distributed.single import SingleProcess
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.health import HealthMonitor
from minitransformer.distributed.supervision.messages import LONGEST_LINE, printable
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.supervision.supervisor import Supervisor
from minitransformer.distributed.timeouts import Timeouts
from minitransformer.errors import ConfigError, RanksError


def by_hand(job: Supervised) -> socket.socket:
    """A connection that belongs to the job, over which a test says what it likes."""
    return connect(job.address, TOKEN, 10.0)


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
    assert job.supervisor.ended.wait(10) and job.said == []


NO_HELLO = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"[1, 2]\n",
    b'{"rank": "x"}\n',
    b'{"rank": 1e999, "size": 1, "who": ""}\n',
    b'{"rank": 0, "size": 1}\n',
    b"[" + b" " * LONGEST_LINE,
    b"[" * 5000 + b"\n",
    b"\xff\n",
]


@pytest.mark.parametrize("words", NO_HELLO, ids=lambda words: repr(words[:20]))
def test_who_knows_the_token_but_does_not_speak_as_a_rank_is_sent_away(words):
    job = Supervised(1)
    with by_hand(job) as connection:
        connection.settimeout(10)
        try:
            connection.sendall(words)
            assert connection.recv(10) == b""
        except ConnectionError:
            pass
    client = job.client(0)
    client.leave()
    assert job.supervisor.ended.wait(10) and job.said == []


HELLO = b'{"rank": 0, "size": 1, "who": "x"}\n'
NO_RANK_SAYS = [
    b'{"put": []}',
    b'{"put": "x"}',
    b'{"number": "x", "waits": null, "busy": ""}',
    b'{"number": 1, "waits": [], "busy": ""}',
    b'{"number": 1e999, "waits": null, "busy": ""}',
    b'{"timeout": "soon"}',
    b'{"timeout": NaN}',
    b'{"timeout": 1e999}',
    b'{"timeout": 0}',
    b'{"failed": 1, "code": 2, "by_all": false}',
    b'{"failed": "x", "code": null, "by_all": false}',
    b'{"failed": "all is well", "code": 0, "by_all": false}',
    b"[1]",
    b"GET /",
]


@pytest.mark.parametrize(
    ("words", "at_once"), [(words, at_once) for words in NO_RANK_SAYS for at_once in {False, words[:1] == b"{"}]
)
def test_a_rank_that_talks_nonsense_ends_the_job(words, at_once):
    job = Supervised(1)
    with by_hand(job) as connection:
        connection.sendall(HELLO + words + b"\n" if at_once else HELLO)
        if not at_once:
            wait_for(job.supervisor.monitor.all_have_come)
            connection.sendall(words + b"\n")
        assert job.supervisor.ended.wait(10)
    assert job.said == ["rank 0 (x) ended without a word: it was killed, or it crashed"]
    assert job.supervisor.failure.code == 2


def test_only_rank_0_sets_the_timeout():
    monitor = HealthMonitor(2)
    for rank in range(2):
        assert monitor.add(rank, 2, "x")
    monitor.take(0, {"timeout": 7})
    with pytest.raises(ValueError, match="only rank 0"):
        monitor.take(1, {"timeout": 9})
    assert monitor.timeout == 7


def test_ranks_that_come_late_are_waited_for_however_short_the_timeout():
    monitor = HealthMonitor(2, Timeouts(start=20.0))
    assert monitor.add(0, 2, "x")
    monitor.take(0, {"timeout": 0.05})
    time.sleep(0.1)
    monitor.take(0, {"number": 1, "waits": 0.1, "busy": ""})
    assert monitor.judge() is None
    assert monitor.add(1, 2, "x")
    time.sleep(0.1)
    for rank in (0, 1):
        monitor.take(rank, {"number": 1 - rank, "waits": 0.2 * (1 - rank), "busy": ""})
    assert monitor.judge().message.startswith("rank 1 must come to collective 1 within 0.05 s")


def test_what_a_rank_says_of_itself_is_shown_in_one_short_line():
    assert printable("a\x1b[31mred\nb\x00", 100) == "a\\x1b[31mred b\\x00"
    assert printable("Größe 5 µm", 100) == "Größe 5 µm"
    assert printable("x" * 50, 10) == "xxxxxxx..."
    job = Supervised(1)
    with by_hand(job) as connection:
        hello = {"rank": 0, "size": 1, "who": "x"}
        failed = {"failed": "\x1b]0;title\x07" + "long " * 10**4, "code": 3, "by_all": False}
        connection.sendall(json.dumps(hello).encode() + b"\n" + json.dumps(failed).encode() + b"\n")
        assert job.supervisor.ended.wait(10)
    (said,) = job.said
    assert said.isprintable() and len(said) <= 2000
    assert said.startswith("rank 0: \\x1b]0;title\\x07long long")


def test_the_end_waits_for_no_stranger_and_leaves_no_connection_open():
    job = Supervised(1)
    silent, rank = socket.create_connection(job.address), by_hand(job)
    rank.sendall(HELLO + b'{"failed": "cause", "code": 5, "by_all": true}\n')

    def ended():
        with suppress(OSError):  # the port is closed at last
            socket.create_connection(job.address).close()
        return job.supervisor.ended.wait(0.1)

    wait_for(ended)
    assert job.said == ["cause"]
    for connection, told in ((silent, False), (rank, True)):
        connection.settimeout(10)
        words = b"".join(iter(lambda connection=connection: connection.recv(100), b""))
        assert (b'{"end": 5}\n' in words) == told
        connection.close()


def test_a_rank_that_comes_after_the_end_is_told():
    job = Supervised(2)
    with by_hand(job) as wrong:
        wrong.sendall(b'{"rank": 1, "size": 3, "who": "x"}\n')
        wait_for(lambda: job.said)
        with by_hand(job) as late:
            late.settimeout(10)
            assert b'{"end": 2}\n' in late.recv(100)


def test_a_listener_hears_a_value_once_whoever_put_it_and_when():
    job = Supervised(2)
    early, late = (job.client(rank) for rank in range(2))
    heard = []
    early.listen("key", lambda: heard.append("early"))
    late.put("key", "value")
    wait_for(lambda: heard == ["early"])
    late.listen("key", lambda: heard.append("late"))
    early.put("key", "again")
    wait_for(lambda: len(heard) > 1)
    assert heard == ["early", "late"]
    for client in (early, late):
        client.leave()


def test_two_processes_cannot_be_the_same_rank():
    job = Supervised(2)
    clients = [job.client(0), job.client(0)]
    wait_for(lambda: job.said)
    assert re.fullmatch(r"rank 0 must be one process in 0..1, got another one, process \d+ on .*", job.said[0])
    wait_for(lambda: len(job.ends) == 2)
    for client in clients:
        client.leave()


def test_ranks_that_never_come_are_named():
    job = Supervised(4, Timeouts(start=0.3))
    client = job.client(1)
    wait_for(lambda: job.said)
    assert job.said == [
        "all 4 ranks must come within 0.3 s, got no word of ranks 0, 2, 3; were they started, does MASTER_ADDR lead "
        "here, and have all the same MINITRANSFORMER_TOKEN?"
    ]
    wait_for(lambda: job.ends == [(1, 2)])
    client.leave()


def test_the_lowest_of_several_ranks_that_fail_is_named():
    job = Supervised(3)
    connections = [by_hand(job) for _ in range(3)]
    for rank, connection in enumerate(connections):
        connection.sendall(b'{"rank": %d, "size": 3, "who": "x"}\n' % rank)
    wait_for(job.supervisor.monitor.all_have_come)
    for rank in (2, 1):
        connections[rank].sendall(b'{"failed": "cause %d", "code": 5, "by_all": false}\n' % rank)
    assert job.supervisor.ended.wait(10)
    assert job.said == ["rank 1: cause 1"]
    for connection in connections:
        connection.settimeout(10)
        assert b'{"end": 5}\n' in b"".join(iter(lambda connection=connection: connection.recv(100), b""))
        connection.close()


def test_a_collective_that_nobody_leaves_is_named():
    job = Supervised(2, Timeouts(start=1.0, heartbeat=0.1))
    clients = [job.client(rank) for rank in range(2)]
    waits = [SingleProcess(rank, 2, client).waiting() for rank, client in enumerate(clients)]
    for each in waits:
        each.__enter__()
    wait_for(lambda: job.said)
    assert re.match(r"collective 1 must end within 1 s \(training.timeout\), got all ranks waiting in it", job.said[0])
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


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="events come in their order only where there is epoll")
@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_of_ranks_that_end_one_after_the_other_the_first_is_named(order, monkeypatch):
    job = Supervised(3)
    connections = [by_hand(job) for _ in range(3)]
    for rank, connection in enumerate(connections):
        connection.sendall(b'{"rank": %d, "size": 3, "who": "x"}\n' % rank)
    wait_for(job.supervisor.monitor.all_have_come)
    both_ended = threading.Event()
    monkeypatch.setattr(job.supervisor.monitor, "take", lambda rank, message: both_ended.wait(10))
    connections[1].sendall(b"{}\n")
    time.sleep(0.1)  # the supervisor is late: both have ended when it looks
    for rank in order:
        connections[rank].close()
    both_ended.set()
    assert job.supervisor.ended.wait(10)
    assert job.said == [f"rank {order[0]} (x) ended without a word: it was killed, or it crashed"]
    connections[1].close()
