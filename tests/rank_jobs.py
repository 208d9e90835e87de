"""Jobs of several ranks for tests: started by mpiexec, by ``launch`` or as threads, and how they ended."""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from minitransformer.checkpoints import RunFolder
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.rank_info import RankInfo
from minitransformer.distributed.supervision.supervisor import Supervisor
from minitransformer.distributed.tcp import TcpCommunicator
from minitransformer.distributed.timeouts import Timeouts

TESTS = Path(__file__).parent
LIMIT = 60  # seconds after which a job counts as hanging; each should take two or three
TOKEN = "the secret of these tests"


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
    """A job that has ended: exit code, output, and duration in seconds."""

    code: int
    lines: list[str]
    seconds: float


def run(arguments: list[object], **variables: str) -> Ended:
    """Run a command to its end; a test fails if it hangs."""
    began = time.monotonic()
    done = subprocess.run(
        [str(each) for each in arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    return Ended(done.returncode, done.stdout.splitlines(), time.monotonic() - began)


def by_mpi(size: int, program: str, *arguments: object) -> Ended:
    """``program``, a file of this folder, as ``size`` ranks of mpiexec."""
    return run([mpiexec(), "-n", size, sys.executable, TESTS / program, *arguments])


LAUNCH = """
import sys
from minitransformer.cli.common import print_line
from minitransformer.distributed.supervision.launch import Launch
sys.exit(Launch(sys.argv[2:], int(sys.argv[1]), lambda message: print_line("train", message)).wait())
"""


def launch_command(size: int, *arguments: object) -> list[str]:
    """Starts ``ranked_run.py`` as ``size`` ranks of ``launch``."""
    return [sys.executable, "-c", LAUNCH, str(size), str(TESTS / "ranked_run.py"), *map(str, arguments)]


def launched(size: int, *arguments: object) -> Ended:
    return run(launch_command(size, *arguments))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def still_running(folder: Path) -> list[str]:
    """Processes whose command line names ``folder``: what a job has left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command and int(path.parent.name) != os.getpid():
            found.append(command)
    return found


def received_until_close(connection: socket.socket) -> bytes:
    """All that arrives until the other side closes."""
    connection.settimeout(20)
    received = b""
    with suppress(ConnectionError):
        while part := connection.recv(1000):
            received += part
    return received


def wait_for(condition: Callable[[], object]) -> None:
    """Return when the condition holds; a test fails if it never does."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)


def wait_for_checkpoint(folder: Path) -> None:
    wait_for(lambda: list(folder.glob("checkpoints/update_*.npz")))


class LocalStore:
    """What ranks tell each other, if they are threads of this process: communicators need no supervisor."""

    def __init__(self):
        self._values: dict[str, Future[str]] = defaultdict(Future)
        self._lock = threading.Lock()

    def _value(self, key: str) -> Future:
        with self._lock:
            return self._values[key]

    def put(self, key: str, value: str) -> None:
        with suppress(InvalidStateError):  # another rank was first
            self._value(key).set_result(value)

    def get(self, key: str) -> str:
        return self._value(key).result(LIMIT)

    def listen(self, key: str, callback: Callable[[], object]) -> None:
        self._value(key).add_done_callback(lambda value: callback())

    def busy(self) -> nullcontext:
        return nullcontext()

    def follow(self, communicator: object) -> None:
        pass


def over_tcp(size: int, work: Callable[[TcpCommunicator], object]) -> list:
    """work(communicator) in a thread for each rank; no supervisor."""
    store = LocalStore()

    def one(rank: int) -> object:
        ranks = TcpCommunicator(rank, size, store, token=TOKEN)
        done = work(ranks)
        ranks.barrier()
        ranks.close()
        return done

    return in_threads(size, one)


def in_threads(size: int, work: Callable[[int], object]) -> list:
    """work(rank) in a thread for each rank."""
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


class Supervised:
    """Ranks as threads of this process, with a supervisor.

    Attributes:
        messages: the output for the user.   ends: (rank, exit code) of each rank that was ordered to end.
    """

    def __init__(self, size: int, timeouts: Timeouts = Timeouts(start=20.0)):  # noqa: B008 - it is frozen
        self.messages: list[str] = []
        self.ends: list[tuple[int, int]] = []
        self.supervisor = Supervisor(size, self.messages.append, token=TOKEN, timeouts=timeouts)
        self.address = ("127.0.0.1", self.supervisor.port)
        self.size, self._timeouts = size, timeouts

    def client(self, rank: int, end: Callable[[int], object] | None = None) -> SupervisorClient:
        return SupervisorClient(
            RankInfo(rank, self.size, rank),
            self.address,
            self.messages.append,
            token=TOKEN,
            end=end or (lambda code: self.ends.append((rank, code))),
            timeouts=self._timeouts,
        )


def check_error(ended: Ended, message: str, only: bool = True) -> None:
    """Exit code 2 and one line of error, which matches ``message``. only: nothing else was printed"""
    lines = [line for line in ended.lines if line.startswith("minitransformer")]
    assert ended.code == 2 and len(lines) == 1 and (lines == ended.lines or not only), ended.lines
    assert re.match(f"minitransformer {message}", lines[0]), lines[0]


def check_end(folder: Path, ended: Ended, message: str, code: int = 2) -> None:
    """One line says why the job ended, the newest checkpoint is whole, and no process is left."""
    if code == 1:  # a fault of the program shows where it is
        assert "Traceback (most recent call last):" in ended.lines
    assert ended.code == code
    check_error(replace(ended, code=2), f"train: {message}", only=code != 1)
    check_folder(folder)


def check_folder(folder: Path, update: int = 4) -> None:
    assert RunFolder(folder).newest_whole(pytest.fail).update == update
    check_gone(folder)


def check_gone(folder: Path) -> None:
    """No process of the job is left; mpiexec may end a moment before the last of them."""
    wait_for(lambda: not still_running(folder))
