"""Two hosts in network namespaces, with addresses of their own and one cable between them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from contract import LENGTHS
from rank_jobs import (
    LIMIT,
    TESTS,
    TOKEN,
    environment,
    mpiexec,
    run,
    still_running,
    wait_for_checkpoint,
)
from tiny_run import final_state
from trained_ranks import one_process  # noqa: F401 - a fixture

from minitransformer.checkpoints import RunFolder

pytestmark = pytest.mark.mpi

CONTRACT = [TESTS / "contract.py", "tcp", "fast"]
ADDRESSES, CARD = ("10.77.0.1", "10.77.0.2"), "cable"


class Hosts:
    """Network namespaces a and b, joined by a pair of virtual network cards."""

    def __init__(self):
        self.names = [f"mt{os.getpid()}{letter}" for letter in "ab"]
        for name in self.names:
            _ip("netns", "add", name)
        a, b = self.names
        _ip("link", "add", CARD, "netns", a, "type", "veth", "peer", "name", CARD, "netns", b)
        for name, address in zip(self.names, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", CARD)
            _ip("-n", name, "link", "set", CARD, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        while not all(self._of_card(host, "operstate") == "up" for host in range(2)):
            time.sleep(0.01)  # it takes a moment until a card sees the other end

    def on(self, host: int, *words: object) -> list[str]:
        """The command, to be run on host 0 or 1. A host has a name and a shared memory of its own, too."""
        name = self.names[host]
        enter = ["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "sh", "-c", 'hostname "$0"; exec "$@"', name]
        return [*enter, *map(str, words)]

    def received(self, host: int) -> int:
        """Bytes that have come over the cable to this host."""
        return int(self._of_card(host, "statistics/rx_bytes"))

    def _of_card(self, host: int, what: str) -> str:
        words = ["ip", "netns", "exec", self.names[host], "cat", f"/sys/class/net/{CARD}/{what}"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def cut(self) -> None:
        _ip("-n", self.names[0], "link", "set", CARD, "down")

    def close(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if shutil.which("ip") is None:
        pytest.skip("there is no command ip (Debian's iproute2) to make hosts with")
    try:
        made = Hosts()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this system forbids network namespaces: {error.stderr.strip()}")
    yield made
    made.close()


def by_mpi(hosts: Hosts, tmp_path, *program: object):
    """One rank on each host; instead of ssh, mpiexec is given a script that enters the namespace."""
    command = mpiexec()
    ssh = tmp_path / "ssh"  # is called with options, the address of host 1, and words for its shell
    enter = shlex.join(hosts.on(1, "sh", "-c"))
    ssh.write_text(f'#!/bin/sh\nwhile [ "${{1#-}}" != "$1" ]; do shift; done\nshift\nexec {enter} "$*"\n')
    ssh.chmod(0o755)
    if "HYDRA" not in subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("two hosts without ssh need MPICH's mpiexec: pip install mpich")
    how = ["-launcher", "ssh", "-launcher-exec", ssh, "-localhost", ADDRESSES[0], "-iface", CARD]
    how += ["-genv", "MASTER_ADDR", ADDRESSES[0], "-genv", "MASTER_PORT", "29400"]
    how += ["-genv", "UCX_NET_DEVICES", CARD]  # MPICH's transport might take the loopback of one host for the other's
    how += ["-hosts", ",".join(ADDRESSES), "-ppn", "1", "-n", "2", sys.executable]
    return run(hosts.on(0, command, *how, *program), MINITRANSFORMER_TOKEN=TOKEN)  # mpiexec passes variables on


def by_hand(hosts: Hosts, rank: int, *program: object, **variables: str) -> subprocess.Popen:
    """One of two ranks, on the host of its number, which has torchrun's variables of its rank."""
    address = {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29400", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    return subprocess.Popen(
        hosts.on(rank, sys.executable, *program),
        env=environment(RANK=str(rank), **address | {"MINITRANSFORMER_TOKEN": TOKEN} | variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


CONTRACT_BYTES = sum(LENGTHS) * (4 + 8 + 8)  # of one array of each length and dtype


def test_two_hosts_keep_the_contract_over_mpi(hosts, tmp_path):
    before = hosts.received(1)
    ended = by_mpi(hosts, tmp_path, TESTS / "contract.py", "mpi", "fast")
    assert (ended.code, ended.lines) == (0, ["2 ranks keep the contract"])
    assert hosts.received(1) - before > CONTRACT_BYTES  # the arrays went over the cable, not through shared memory


def test_two_hosts_without_mpi_keep_the_contract_at_the_address_of_rank_0(hosts):
    before = hosts.received(1)
    first, second = (by_hand(hosts, rank, *CONTRACT) for rank in range(2))
    assert first.communicate(timeout=LIMIT)[0] == "2 ranks keep the contract\n"
    assert second.communicate(timeout=LIMIT)[0] == ""
    assert (first.returncode, second.returncode) == (0, 0)
    assert hosts.received(1) - before > CONTRACT_BYTES


UNAUTHENTICATED = f"""
import socket, sys
sys.path.insert(0, {str(TESTS)!r})
from rank_jobs import received_until_close
from minitransformer.distributed.connections import connect
from minitransformer.distributed.supervision.messages import encode
from minitransformer.errors import RanksError
address = ("{ADDRESSES[0]}", 29400)
try:
    connect(address, "a guess")
except RanksError as error:
    print("refused:", error)
with socket.create_connection(address) as client:
    client.sendall(encode(rank=1, size=2, who="x") + encode(failed="by a client", code=0, by_all=True))
    answer = received_until_close(client)
assert answer[32:] in (b"", bytes(32)), answer
"""


def test_an_unauthenticated_host_neither_joins_nor_ends_the_job(hosts):
    first = by_hand(hosts, 0, *CONTRACT)
    client = run(hosts.on(1, sys.executable, "-c", UNAUTHENTICATED))
    assert len(client.lines) == 1 and client.lines[0].startswith("refused:"), client.lines
    second = by_hand(hosts, 1, *CONTRACT)
    assert first.communicate(timeout=LIMIT)[0] == "2 ranks keep the contract\n"
    assert second.communicate(timeout=LIMIT)[0] == ""


def test_two_hosts_train_to_the_result_of_one_process(hosts, tmp_path, one_process, relative_error):  # noqa: F811
    ended = by_mpi(hosts, tmp_path, TESTS / "ranked_run.py", tmp_path / "run", '{"updates": 20}')
    assert (ended.code, ended.lines) == (0, [])
    assert relative_error(final_state(tmp_path / "run", 20)[0], final_state(one_process, 20)[0]) < 1e-9


def test_a_cable_that_is_cut_ends_the_job_on_both_hosts(hosts, tmp_path):
    program = [TESTS / "ranked_run.py", tmp_path, '{"updates": 1000000, "timeout": 2.5}']
    jobs = [by_hand(hosts, rank, *program) for rank in range(2)]
    wait_for_checkpoint(tmp_path)
    hosts.cut()
    began = time.monotonic()
    first, second = (job.communicate(timeout=LIMIT)[0] for job in jobs)
    assert time.monotonic() - began < 15
    assert [job.returncode for job in jobs] == [2, 2]
    silent = r"has been silent for 2.5 s"
    assert re.fullmatch(rf"minitransformer train: rank 1 \(process \d+ on .*\) {silent} .*\n", first)
    assert re.fullmatch(rf"minitransformer train: rank 0 {silent}: is it stopped\? \(seen from rank 1\)\n", second)
    RunFolder(tmp_path).newest_whole(pytest.fail)
    assert still_running(tmp_path) == []
