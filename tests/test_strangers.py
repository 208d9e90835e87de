"""Strangers on the ports of a job: they cannot join it, end it, keep ranks out, or have a process killed."""

import json
import socket
import struct
import subprocess
import sys
import textwrap
import time
from contextlib import ExitStack, suppress

import pytest
from contract import check
from rank_jobs import TOKEN, LocalStore, Supervised, environment, in_threads

from minitransformer.distributed.connections import CHALLENGE, MAX_UNPROVEN, connect
from minitransformer.distributed.supervision.launch import Launch
from minitransformer.distributed.supervision.process_group import ProcessGroup
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.tcp import TcpCommunicator
from minitransformer.distributed.timeouts import Timeouts
from minitransformer.errors import RanksError

pytestmark = pytest.mark.mpi


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def answers(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    connection.settimeout(20)
    received = b""
    with suppress(ConnectionError):
        while part := connection.recv(1000):
            received += part
    return received


WORDS = [
    b"GET / HTTP/1.1\r\n\r\n" * 10,
    line(rank=0, size=1, who="x" * 100, process=1) + line(failed="by a stranger", code=0, by_all=True),
    line(rank=0, size=9, who="another size" * 10, process=1),
    line(token="", rank=0, size=1, who="\x1b[31m" * 20),
    bytes(2 * CHALLENGE) + line(rank=0, size=1, who="x"),
    b"[" * 5000 + b"\n",
]


@pytest.mark.parametrize("words", WORDS, ids=lambda words: repr(words[:20]))
def test_what_a_stranger_says_to_the_supervisor_is_not_believed(words):
    job = Supervised(1)
    with socket.create_connection(job.address) as stranger:
        with suppress(ConnectionError):
            stranger.sendall(words)
        assert answers(stranger)[CHALLENGE:] in (b"", bytes(CHALLENGE))
        assert job.supervisor.monitor.ranks == {} and job.said == []
    client = job.client(0)
    client.leave()
    assert job.supervisor.ended.wait(10)
    assert (job.said, job.supervisor.failure) == ([], None)


def test_who_has_another_token_is_refused():
    job = Supervised(1)
    with pytest.raises(RanksError, match=r"ranks: 127.0.0.1:\d+ must know this job's token, got a process"):
        connect(job.address, "a guess", 10.0)
    job.client(0).leave()


def test_a_rank_does_not_believe_a_listener_that_does_not_know_the_token():
    """It sends back what it was sent: the challenge, then the rank's own proof."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def mirror(number):
            if number == 0:
                with pytest.raises(RanksError, match="must know this job's token"):
                    connect(server.getsockname(), TOKEN, 10.0)
                return
            connection = server.accept()[0]
            connection.sendall(bytes(CHALLENGE))
            connection.sendall(connection.recv(2 * CHALLENGE)[CHALLENGE:])
            connection.close()

        in_threads(2, mirror)


def test_the_token_itself_is_never_sent():
    received = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen(number):
            if number == 0:
                with pytest.raises(RanksError):
                    connect(server.getsockname(), TOKEN, 10.0)
                return
            connection = server.accept()[0]
            connection.sendall(bytes(CHALLENGE))
            received.append(connection.recv(1000))
            connection.sendall(bytes(CHALLENGE))
            connection.close()

        in_threads(2, listen)
    assert len(received[0]) == 2 * CHALLENGE and TOKEN.encode() not in received[0]


def test_strangers_on_the_port_of_the_tcp_communicator_are_no_ranks():
    store, sent_away = LocalStore(), []
    timeouts = Timeouts(handshake=0.3)

    def work(rank):
        if rank == 1:
            host, _, port = store.get("tcp").rpartition(":")
            address = (host, int(port))
            for words in (
                b"GET / HTTP/1.1" * 10,
                (1).to_bytes(4, "big"),
                bytes(2 * CHALLENGE) + (1).to_bytes(4, "big"),
            ):
                with socket.create_connection(address) as stranger:
                    stranger.sendall(words)
                    answers(stranger)
            with socket.create_connection(address) as gone:  # a reset instead of a farewell
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with socket.create_connection(address) as silent:
                sent_away.append(answers(silent)[CHALLENGE:])
        ranks = TcpCommunicator(rank, 2, store, token=TOKEN, timeouts=timeouts)
        check(ranks)
        ranks.barrier()
        ranks.close()

    in_threads(2, work)
    assert sent_away == [b""]


def refused(port: int) -> bool:
    """Whether nobody listens on another address of this machine: what listens on all would answer there."""
    try:
        socket.create_connection(("127.0.0.2", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_ranks_of_one_machine_listen_on_loopback_only():
    job = Supervised(2)
    assert refused(job.supervisor.port)
    seen = []

    def work(rank):
        client = job.client(rank)
        if rank == 1:
            seen.append(refused(int(client.get("tcp").rpartition(":")[2])))
        ranks = TcpCommunicator(rank, 2, client, token=TOKEN, host=client.host)
        ranks.barrier()
        ranks.close()
        client.leave()

    in_threads(2, work)
    assert seen == [True]


def test_the_supervisor_of_rank_0_listens_on_loopback_only():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    group = ProcessGroup(RankInfo(0, 1, 0, address=("127.0.0.1", port), launched=False), print)
    assert group.client is None  # a process alone listens nowhere

    def join(rank):
        group = ProcessGroup(RankInfo(rank, 2, rank, address=("127.0.0.1", port)), print)
        closed = refused(port)
        group.client.leave()
        return closed

    assert in_threads(2, join) == [True, True]


def test_idle_strangers_are_sent_away_and_keep_no_rank_out():
    job = Supervised(1)
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(job.address)) for _ in range(3 * MAX_UNPROVEN)]
        began = time.monotonic()
        client = job.client(0)
        assert time.monotonic() - began < 5
        for stranger in idle[: 2 * MAX_UNPROVEN]:  # newer ones have taken their places
            assert len(answers(stranger)) == CHALLENGE
    client.leave()
    assert job.supervisor.ended.wait(10) and job.said == []


def test_an_idle_stranger_is_sent_away_after_some_seconds():
    job = Supervised(1, Timeouts(handshake=0.5))
    with socket.create_connection(job.address) as stranger:
        began = time.monotonic()
        assert len(answers(stranger)) == CHALLENGE
        assert 0.3 < time.monotonic() - began < 5
    job.client(0).leave()


BESIEGED = f"""
import asyncio, resource, socket, time
from minitransformer.distributed.connections import MAX_UNPROVEN, serve
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)

async def work():
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_UNPROVEN // 2, MAX_UNPROVEN // 2))
    await asyncio.wait_for(serve(server, {TOKEN!r}, print), 3)

before = time.process_time()
try:
    asyncio.run(work())
except TimeoutError:
    print(time.process_time() - before)
"""


def test_more_connections_than_file_descriptors_do_not_keep_a_core_busy():
    process = subprocess.Popen([sys.executable, "-c", BESIEGED], env=environment(), stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    with ExitStack() as stack:
        for _ in range(2 * MAX_UNPROVEN):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        seconds = float(process.communicate(timeout=60)[0])
    assert seconds < 1.0


VICTIM_HUNTER = """
    import json, os, socket, sys, time
    port, rank = int(os.environ["MASTER_PORT"]), os.environ["RANK"]
    if rank == "1":  # a stranger, who knows the port and not the token, is faster than this rank
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            hello = {{"rank": 1, "size": 2, "who": "stranger", "process": {victim}}}
            stranger.sendall(json.dumps(hello).encode() + b"\\n")
            time.sleep(0.5)
    from minitransformer.distributed import init_process_group
    with init_process_group(print, lambda error: (str(error), 2)) as group:
        group.connect(__import__("minitransformer.config").config.TrainingConfig(micro_batches=2))
"""


def test_no_process_is_killed_that_a_stranger_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    victim = subprocess.Popen(["sleep", "100"])
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(VICTIM_HUNTER.format(victim=victim.pid)))
    said = []
    try:
        assert Launch([str(program)], 2, said.append).wait() == 0
        assert said == []
        with pytest.raises(subprocess.TimeoutExpired):
            victim.wait(0.5)
    finally:
        victim.kill()
        victim.wait()


def test_even_a_rank_cannot_name_a_process_to_be_killed(tmp_path, monkeypatch):
    """A rank that knows the token and lies about its process: only the launcher's own children are killed."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    victim = subprocess.Popen(["sleep", "100"])
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import json, os, time
        from minitransformer.distributed.connections import connect
        connection = connect(("127.0.0.1", int(os.environ["MASTER_PORT"])), os.environ["MINITRANSFORMER_TOKEN"], 10)
        connection.sendall(json.dumps({{"rank": 0, "size": 1, "who": "x", "process": {victim.pid}}}).encode() + b"\\n")
        time.sleep(0.5)
        """)
    )
    said = []
    try:
        assert Launch([str(program)], 1, said.append).wait() == 2
        assert said == ["rank 0 (x) ended without a word: it ended with exit code 0"]
        with pytest.raises(subprocess.TimeoutExpired):
            victim.wait(0.5)
    finally:
        victim.kill()
        victim.wait()


def test_the_token_of_launch_is_random_and_on_no_command_line(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, pathlib\ntoken = os.environ['MINITRANSFORMER_TOKEN']\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).write_text(token)\n"
        "for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
        "    try:\n        assert token.encode() not in path.read_bytes()\n    except OSError:\n        pass\n"
    )
    tokens = []
    for _ in range(2):
        assert Launch([str(program)], 2, print).wait() == 0
        tokens += [(tmp_path / rank).read_text() for rank in "01"]
    assert tokens[0] == tokens[1] != tokens[2] == tokens[3]
    assert len(tokens[0]) == 64
