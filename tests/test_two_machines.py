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
    check_gone,
    environment,
    mpiexec,
    run,
    wait_for_checkpoint,
)
from tiny_run import final_state
from trained_ranks import one_process  # noqa: F401 - a fixture

from minitransformer.checkpoints import RunFolder

pytestmark = pytest.mark.mpi

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


def command_of(hosts: Hosts, tmp_path, *program: object) -> list[str]:
    """One rank on each host; instead of ssh, mpiexec is given a script that enters the namespace."""
    command = mpiexec()
    ssh = tmp_path / "ssh"  # is called with options, the address of host 1, and words for its shell
    enter = shlex.join(hosts.on(1, "sh", "-c"))
    ssh.write_text(f'#!/bin/sh\nwhile [ "${{1#-}}" != "$1" ]; do shift; done\nshift\nexec {enter} "$*"\n')
    ssh.chmod(0o755)
    if "HYDRA" not in subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("two hosts without ssh need MPICH's mpiexec: pip install mpich")
    how = ["-launcher", "ssh", "-launcher-exec", ssh, "-localhost", ADDRESSES[0], "-iface", CARD]
    how += ["-genv", "UCX_NET_DEVICES", CARD]  # MPICH's transport might take the loopback of one host for the other's
    how += ["-hosts", ",".join(ADDRESSES), "-ppn", "1", "-n", "2", sys.executable]
    return hosts.on(0, command, *how, *program)


CONTRACT_BYTES = sum(LENGTHS) * (4 + 8 + 8)  # of one array of each length and dtype


def test_two_hosts_keep_the_contract_over_mpi(hosts, tmp_path):
    before = hosts.received(1)
    ended = run(command_of(hosts, tmp_path, TESTS / "contract.py", "fast"))
    assert (ended.code, ended.lines) == (0, ["2 ranks keep the contract by MpiCommunicator"])
    assert hosts.received(1) - before > CONTRACT_BYTES  # the arrays went over the cable, not through shared memory


def test_two_hosts_train_to_the_result_of_one_process(hosts, tmp_path, one_process, relative_error):  # noqa: F811
    ended = run(command_of(hosts, tmp_path, TESTS / "ranked_run.py", tmp_path / "run", '{"updates": 20}'))
    assert (ended.code, ended.lines) == (0, [])
    assert relative_error(final_state(tmp_path / "run", 20)[0], final_state(one_process, 20)[0]) < 1e-9


def test_a_cable_that_is_cut_ends_the_job_on_both_hosts(hosts, tmp_path):
    program = [TESTS / "ranked_run.py", tmp_path / "run", '{"updates": 1000000, "timeout": 2.5}']
    command = command_of(hosts, tmp_path, *program)
    job = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                           stderr=subprocess.STDOUT)  # fmt: skip
    wait_for_checkpoint(tmp_path / "run")
    hosts.cut()
    text = job.communicate(timeout=LIMIT)[0]
    assert job.returncode != 0
    assert re.search(
        r"minitransformer train: rank \d: sum \d+ must end within 2.5 s \(training.timeout\), got no", text
    )
    RunFolder(tmp_path / "run").newest_whole(pytest.fail)
    check_gone()
