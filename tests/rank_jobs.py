"""Jobs of several ranks for tests: started by mpiexec, by ``launch`` or by hand, and what became of them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from minitransformer.distributed.rank_info import RankInfo
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.supervisor import Supervisor

TESTS = Path(__file__).parent
LIMIT = 60  # seconds after which a job counts as hanging; each should take two or three


def mpiexec() -> str:
    """The command that starts MPI ranks; the test is skipped where there is none."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install minitransformer[mpi]")
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if found is None:
        pytest.skip("there is no mpiexec: pip install mpich")
    return found


def environment(**more: str) -> dict[str, str]:
    """For ranks that share few cores: one BLAS thread each."""
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TESTS.parent)} | more


@dataclass(frozen=True)
class Ended:
    """A job that has ended: exit code, what it said, and how long it took."""

    code: int
    lines: list[str]
    seconds: float


def run(words: list[object], **variables: str) -> Ended:
    """Run a command to its end; a test fails if it hangs."""
    began = time.monotonic()
    done = subprocess.run(
        [str(word) for word in words],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    return Ended(done.returncode, done.stdout.splitlines(), time.monotonic() - began)


def by_mpi(size: int, program: str, *words: object) -> Ended:
    """``program``, a file of this folder, as ``size`` ranks of mpiexec."""
    return run([mpiexec(), "-n", size, sys.executable, TESTS / program, *words])


def launched(start: str, size: int, *words: object) -> Ended:
    """``ranked_run.py`` as ``size`` ranks of ``launch``; ``start`` is mpi or plain."""
    if start == "mpi":
        mpiexec()
    return run([sys.executable, TESTS / "launched_run.py", start, size, *words])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def still_running(folder: Path) -> list[str]:
    """Processes whose command line names ``folder``: what a job has left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(path.parent.name) != os.getpid():
            found.append(words)
    return found


class Threads:
    """Ranks as threads of this process, with a hub: fast, and good enough for engines that use sockets.

    Attributes:
        said: what the hub told the user.   ends: (rank, exit code) of each rank that was told to end.
    """

    def __init__(self, size: int, deadline: float = 20.0):
        self.said: list[str] = []
        self.ends: list[tuple[int, int]] = []
        self.hub = Supervisor(size, self.said.append, host="127.0.0.1", deadline=deadline)
        self.size = size

    def member(self, rank: int, size: int | None = None) -> SupervisorClient:
        place = RankInfo(rank, size or self.size, rank)
        return SupervisorClient(
            place,
            ("127.0.0.1", self.hub.port),
            self.said.append,
            self.hub.watch.deadline,
            stop=lambda code: self.ends.append((rank, code)),
        )

    def map(self, work: Callable[[int], object]) -> list:
        """work(rank) in a thread for each rank."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(work, range(self.size)))
