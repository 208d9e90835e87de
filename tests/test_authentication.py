"""A client without the job's token cannot join the job, end it, keep ranks out, or have a process killed."""

import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest
from contract import check
from rank_jobs import TOKEN, LocalStore, Supervised, environment, free_port, in_threads, received_until_close
from systems import needs

from minitransformer.config import TrainingConfig
from minitransformer.distributed.connections import CHALLENGE, MAX_UNAUTHENTICATED, connect
from minitransformer.distributed.supervision.launch import Launch
from minitransformer.distributed.supervision.messages import encode
from minitransformer.distributed.supervision.process_group import ProcessGroup
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.tcp import TcpCommunicator
from minitransformer.distributed.timeouts import Timeouts
from minitransformer.errors import ConfigError, RanksError

pytestmark = pytest.mark.mpi

UNAUTHENTICATED = [
    b"GET / HTTP/1.1\r\n\r\n" * 10,
    encode(rank=0, size=1, who="x" * 100, process=1) + encode(failed="by a client", code=0, by_all=True),
    encode(rank=0, size=9, who="another size" * 10, process=1),
    encode(token="", rank=0, size=1, who="\x1b[31m" * 20),
    bytes(2 * CHALLENGE) + encode(rank=0, size=1, who="x"),
    b"[" * 5000 + b"\n",
]


@pytest.mark.parametrize("sent", UNAUTHENTICATED, ids=lambda sent: repr(sent[:20]))
def test_the_supervisor_ignores_what_an_unauthenticated_client_sends(sent):
    job = Supervised(1)
    with socket.create_connection(job.address) as client:
        with suppress(ConnectionError):
            client.sendall(sent)
        assert received_until_close(client)[CHALLENGE:] in (b"", bytes(CHALLENGE))
        assert job.supervisor.monitor.ranks == {} and job.messages == []
    job.client(0).leave()
    assert job.supervisor.ended.wait(10)
    assert (job.messages, job.supervisor.failure) == ([], None)


def test_a_peer_with_another_token_is_refused():
    job = Supervised(1)
    with pytest.raises(RanksError, match=r"ranks: 127.0.0.1:\d+ must know this job's token, got a process"):
        connect(job.address, "a guess")
    job.client(0).leave()


@pytest.mark.parametrize("answer", [lambda proof: proof, lambda proof: bytes(CHALLENGE)], ids=["mirror", "zeros"])
def test_a_listener_without_the_token_is_refused_and_never_sees_it(answer):
    """It sends a challenge, and reflects the rank's own proof or answers with zeros."""
    received = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen_or_connect(number):
            if number == 0:
                with pytest.raises(RanksError, match="must know this job's token"):
                    connect(server.getsockname(), TOKEN)
                return
            with server.accept()[0] as connection:
                connection.sendall(bytes(CHALLENGE))
                received.append(connection.recv(1000))
                connection.sendall(answer(received[0][CHALLENGE:]))

        in_threads(2, listen_or_connect)
    assert len(received[0]) == 2 * CHALLENGE and TOKEN.encode() not in received[0]


def test_a_listener_that_does_not_answer_is_reported_as_another_program():
    message = r"ranks: rank 0 must answer at 127.0.0.1:\d+ within 0.3 s, got timed out; does another program listen"
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ConfigError, match=message):
        connect(server.getsockname(), TOKEN, Timeouts(handshake=0.3))


def test_the_tcp_communicator_takes_no_unauthenticated_client_for_a_rank():
    store, after_challenge = LocalStore(), []
    rank_1 = (1).to_bytes(4, "big")

    def work(rank):
        if rank == 1:
            host, _, port = store.get("tcp").rpartition(":")
            address = (host, int(port))
            for sent in (b"GET / HTTP/1.1" * 10, rank_1, bytes(2 * CHALLENGE) + rank_1):
                with socket.create_connection(address) as client:
                    client.sendall(sent)
                    after_challenge.append(received_until_close(client)[CHALLENGE:])
            with socket.create_connection(address) as client:  # closed with a TCP reset
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ranks = TcpCommunicator(rank, 2, store, token=TOKEN)
        check(ranks)
        ranks.barrier()
        ranks.close()

    in_threads(2, work)
    assert set(after_challenge) <= {b"", bytes(CHALLENGE)}


def refused(port: int) -> bool:
    """Whether nothing listens on another loopback address, as a program that listens on all addresses would."""
    try:
        socket.create_connection(("127.0.0.2", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


@needs("a second loopback address")
def test_ranks_of_one_machine_listen_on_loopback_only():
    address = ("127.0.0.1", free_port())
    assert ProcessGroup(RankInfo(0, 1, 0, address=address), print).client is None  # a process alone listens nowhere

    def work(rank):
        group = ProcessGroup(RankInfo(rank, 2, rank, address=address), print)
        assert refused(address[1])
        if rank == 1:
            assert refused(int(group.client.get("tcp").rpartition(":")[2]))
        group.connect(TrainingConfig(communicator="tcp", micro_batches=2))
        group.leave()

    in_threads(2, work)


def test_idle_unauthenticated_connections_do_not_keep_a_rank_out():
    job = Supervised(1)
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(job.address)) for _ in range(3 * MAX_UNAUTHENTICATED)]
        began = time.monotonic()
        client = job.client(0)
        for connection in idle[: 2 * MAX_UNAUTHENTICATED]:
            assert len(received_until_close(connection)) == CHALLENGE
        assert time.monotonic() - began < 8  # long before the timeout of the handshake
    client.leave()
    assert job.supervisor.ended.wait(10) and job.messages == []


def test_an_idle_client_is_disconnected_after_the_handshake_timeout():
    job = Supervised(1, Timeouts(handshake=0.5))
    with socket.create_connection(job.address) as client:
        began = time.monotonic()
        assert len(received_until_close(client)) == CHALLENGE
        assert 0.3 < time.monotonic() - began < 5
    job.client(0).leave()


FLOODED = f"""
import asyncio, resource, socket, time
from minitransformer.distributed.connections import MAX_UNAUTHENTICATED, serve
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)

async def work():
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_UNAUTHENTICATED // 2, MAX_UNAUTHENTICATED // 2))
    await asyncio.wait_for(serve(server, {TOKEN!r}, print), 3)

before = time.process_time()
try:
    asyncio.run(work())
except TimeoutError:
    print(time.process_time() - before)
"""


@needs("limits of a process")
def test_more_connections_than_file_descriptors_do_not_keep_a_core_busy():
    process = subprocess.Popen([sys.executable, "-c", FLOODED], env=environment(), stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    with ExitStack() as stack:
        for _ in range(2 * MAX_UNAUTHENTICATED):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        seconds = float(process.communicate(timeout=60)[0])
    assert seconds < 1.0


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """launch(program text, size): the exit code and what was printed."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])

    def run(program: str, size: int) -> tuple[int, list[str]]:
        path, messages = tmp_path / "program.py", []
        path.write_text(program)
        return Launch([str(path)], size, messages.append).wait(), messages

    return run


LYING_RANK = """
import os, time
from minitransformer.distributed.connections import connect
from minitransformer.distributed.supervision.messages import encode
connection = connect(("127.0.0.1", int(os.environ["MASTER_PORT"])), os.environ["MINITRANSFORMER_TOKEN"])
connection.sendall(encode(rank=0, size=1, who="x", process={victim}))
time.sleep(0.5)
"""


@needs("POSIX")
def test_no_process_is_killed_that_a_rank_names(launch):
    """Only the launcher's own children are sent signals, whatever pid a rank states."""
    victim = subprocess.Popen(["sleep", "100"])
    messages = ["rank 0 (x) ended unexpectedly: it ended with exit code 0"]
    assert launch(LYING_RANK.format(victim=victim.pid), 1) == (2, messages)
    with pytest.raises(subprocess.TimeoutExpired):
        victim.wait(0.5)
    victim.kill()
    victim.wait()


@needs("/proc")
def test_the_token_of_launch_is_random_and_on_no_command_line(launch, tmp_path):
    program = f"""
import os, pathlib
token = os.environ["MINITRANSFORMER_TOKEN"]
pathlib.Path({str(tmp_path)!r}, os.environ["RANK"]).write_text(token)
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        assert token.encode() not in path.read_bytes()
    except OSError:
        pass
"""
    tokens = []
    for _ in range(2):
        assert launch(program, 2) == (0, [])
        tokens += [(tmp_path / rank).read_text() for rank in "01"]
    assert tokens[0] == tokens[1] != tokens[2] == tokens[3]
    assert len(tokens[0]) == 64
