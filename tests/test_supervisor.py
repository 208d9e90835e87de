"""The hub itself: who may come, what it passes on, and what it says when somebody is missing or stuck."""

from __future__ import annotations

import re
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from rank_checks import wait_for
from rank_jobs import Threads, free_port

from minitransformer.distributed.rank_info import RankInfo
from minitransformer.distributed.supervision import supervisor as supervisor_module
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.messages import LONGEST_LINE
from minitransformer.distributed.supervision.supervisor import BEAT, Supervisor
from minitransformer.errors import ConfigError, RanksError


def test_words_reach_all_ranks_in_the_order_of_ranks():
    job = Threads(3)

    def work(rank):
        member = job.member(rank)
        time.sleep(0.05 * (2 - rank))  # the last comes first
        words = [member.gather(key, f"{key}{rank}") for key in ("a", "b")]
        member.leave()
        return words

    assert job.map(work) == [[["a0", "a1", "a2"], ["b0", "b1", "b2"]]] * 3
    assert job.hub.ended.wait(10) and job.said == []


NONSENSE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"[1, 2]\n",
    b'{"rank": "x"}\n',
    b'{"rank": 1e999, "size": 1, "who": ""}\n',
    b'{"rank": 0, "size": 1, "who": ""}\n',
    b'{"rank": 0, "size": 1, "who": "", "process": -1}\n',
    b"[" + b" " * LONGEST_LINE,
    b"[" * 5000 + b"\n",
    b"\xff\n",
]


def test_a_stranger_on_the_port_harms_nobody():
    job = Threads(1)
    silent, gone, *others = (socket.create_connection(("127.0.0.1", job.hub.port)) for _ in range(2 + len(NONSENSE)))
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset instead of a farewell
    gone.close()
    for stranger, words in zip(others, NONSENSE, strict=True):
        stranger.settimeout(10)
        with suppress(ConnectionError):
            stranger.sendall(words)
            assert stranger.recv(10) == b""  # sent away; the silent one waits
        stranger.close()
    member = job.member(0)
    assert member.gather("word", "w") == ["w"]
    member.leave()
    assert job.hub.ended.wait(10) and job.said == []
    silent.settimeout(10)
    assert silent.recv(10) == b""  # the hub leaves no connection open
    silent.close()


HELLO = b'{"rank": 0, "size": 1, "who": "x", "process": 7}\n'
NO_RANK_SAYS = [
    b'{"put": []}',
    b'{"put": "x"}',
    b'{"number": "x", "waits": null, "busy": ""}',
    b'{"number": 1, "waits": [], "busy": ""}',
    b'{"number": 1e999, "waits": null, "busy": ""}',
    b'{"deadline": "soon"}',
    b'{"failed": 1, "code": 2, "by_all": false}',
    b'{"failed": "x", "code": null, "by_all": false}',
    b"[1]",
    b"GET /",
]


@pytest.mark.parametrize(
    ("words", "at_once"), [(words, at_once) for words in NO_RANK_SAYS for at_once in {False, words[:1] == b"{"}]
)
def test_a_rank_that_talks_nonsense_ends_the_job(words, at_once):
    job = Threads(1)
    with socket.create_connection(("127.0.0.1", job.hub.port)) as connection:
        connection.sendall(HELLO + words + b"\n" if at_once else HELLO)
        if not at_once:
            wait_for(lambda: job.hub.processes)
            connection.sendall(words + b"\n")
        assert job.hub.ended.wait(10)
    assert job.said == ["rank 0 (x) ended without a word: it was killed, or it crashed"]
    assert job.hub.processes == [7]


def test_the_end_waits_for_no_stranger_and_leaves_no_connection_open():
    job = Threads(1)
    silent, rank = (socket.create_connection(("127.0.0.1", job.hub.port)) for _ in range(2))
    rank.sendall(HELLO + b'{"failed": "cause", "code": 5, "by_all": true}\n')

    def ended():
        with suppress(OSError):  # the port is closed at last
            socket.create_connection(("127.0.0.1", job.hub.port)).close()
        return job.hub.ended.wait(0.1)

    wait_for(ended)
    assert job.said == ["cause"]
    for connection in (silent, rank):
        connection.settimeout(10)
        words = b"".join(iter(lambda connection=connection: connection.recv(100), b""))
        assert words.endswith(b'{"end": 5}\n')
        connection.close()


def test_a_listener_hears_a_word_once_whoever_left_it_and_when():
    job = Threads(2)
    early, late = (job.member(rank) for rank in range(2))
    heard = []
    early.listen("word", lambda: heard.append("early"))
    late.put("word", "w")
    wait_for(lambda: heard == ["early"])
    late.listen("word", lambda: heard.append("late"))
    early.put("word", "again")
    wait_for(lambda: len(heard) > 1)
    assert heard == ["early", "late"]
    for member in (early, late):
        member.leave()


def test_two_processes_cannot_be_the_same_rank():
    job = Threads(2)
    members = [job.member(0), job.member(0)]
    wait_for(lambda: job.said)
    assert re.fullmatch(r"rank 0 must be one process in 0..1, got another one, process \d+ on .*", job.said[0])
    wait_for(lambda: len(job.ends) == 2)
    for member in members:
        member.leave()


def test_ranks_that_never_come_are_named():
    job = Threads(4, deadline=0.3)
    member = job.member(1)
    wait_for(lambda: job.said)
    assert job.said == [
        "all 4 ranks must come within 0.3 s, got no word of ranks 0, 2, 3; were they started, and does MASTER_ADDR "
        "lead here?"
    ]
    wait_for(lambda: job.ends == [(1, 2)])
    member.leave()


def test_the_lowest_of_several_ranks_that_fail_is_told_of():
    job = Threads(3)
    members = [job.member(rank) for rank in range(3)]
    for rank in (2, 1):
        members[rank]._send(failed=f"cause {rank}", code=5, by_all=False)
    wait_for(lambda: len(job.ends) == 3)
    assert job.said == ["rank 1: cause 1"]
    assert sorted(job.ends) == [(0, 5), (1, 5), (2, 5)]
    for member in members:
        member.leave()


def test_a_collective_that_nobody_leaves_is_told_of(monkeypatch):
    monkeypatch.setattr(supervisor_module, "BEAT", 0.1)
    job = Threads(2, deadline=1.0)
    members = [job.member(rank) for rank in range(2)]
    waits = [member.waiting() for member in members]
    for each in waits:
        each.__enter__()
    wait_for(lambda: job.said)
    assert re.match(r"collective 1 must end within 1 s \(training.deadline\), got all ranks waiting in it", job.said[0])
    for member in members:
        member.leave()


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"ranks: port {port} must be free, got Address already in use; set"):
            Supervisor(2, print, host="127.0.0.1", port=port)


def test_a_hub_that_is_not_there_is_told_of_after_the_deadline():
    port = free_port()
    with pytest.raises(RanksError, match=rf"ranks: rank 0 must listen at 127.0.0.1:{port}, got Connection refused for"):
        SupervisorClient(RankInfo(1, 2, 1), ("127.0.0.1", port), print, deadline=0.3)


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="only Linux closes files in this order")
def test_the_end_of_a_killed_rank_is_heard_by_the_hub_before_anyone_else():
    job = Threads(1)
    member = job.member(0)
    with socket.socket() as later:
        assert member._lines.fileno() > later.fileno()
    member.leave()
    ends = [socket.socketpair() for _ in range(4)]
    poll = select.epoll()
    for ours, _ in ends:
        poll.register(ours, select.EPOLLIN)
    words = [sys.executable, "-c", "import time; time.sleep(100)"]
    process = subprocess.Popen(words, pass_fds=[theirs.fileno() for _, theirs in ends])
    for _, theirs in ends:
        theirs.close()
    process.kill()
    process.wait()
    numbers = {ours.fileno(): number for number, (ours, _) in enumerate(ends)}
    wait_for(lambda: len(poll.poll(0)) == 4)
    assert [numbers[file] for file, _ in poll.poll(0)] == [3, 2, 1, 0]  # the last opened has the highest number
    for ours, _ in ends:
        ours.close()
    poll.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="events come in their order only where there is epoll")
@pytest.mark.parametrize(("first", "second"), [(2, 0), (0, 2)])
def test_of_ranks_that_end_one_after_the_other_the_first_is_told_of(first, second):
    said = []
    hub = Supervisor(3, said.append)
    ranks = [socket.create_connection(("127.0.0.1", hub.port)) for _ in range(3)]
    for rank, connection in enumerate(ranks):
        connection.sendall(b'{"rank": %d, "size": 3, "who": "process 1 on x", "process": 1}\n' % rank)
    wait_for(lambda: len(hub._ranks) == 3)
    hub._read = lambda: time.sleep(0.01)  # the hub is late: both have ended when it looks
    time.sleep(2 * BEAT)
    ranks[first].close()
    ranks[second].close()
    Supervisor._read(hub)
    wait_for(lambda: said)
    assert said == [f"rank {first} (process 1 on x) ended without a word: it was killed, or it crashed"]
    assert hub.ended.wait(10)
