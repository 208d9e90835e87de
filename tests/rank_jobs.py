"""Jobs of several ranks for tests: started by mpiexec, by ``launch`` or as threads, and how they ended."""

import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from systems import find_mpiexec, processes_with

from minitransformer.checkpoints import RunFolder
from minitransformer.distributed.local import LocalCommunicator, SharedMemory

TESTS = Path(__file__).parent
LIMIT = 60  # seconds after which a job counts as hanging; each should take two or three
MARK = f"STARTED_BY_TEST={os.getpid()}"


def mpiexec() -> str:
    """The command that starts MPI ranks; the test is skipped where there is none."""
    return find_mpiexec() or pytest.skip('there is no mpi4py or no mpiexec: pip install -e ".[mpi]"')


def environment(**more: str) -> dict[str, str]:
    """For ranks that share few cores: one BLAS thread each."""
    name, _, value = MARK.partition("=")
    path = f"{TESTS.parent}{os.pathsep}{TESTS}"
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path, name: value} | more


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
from functools import partial
import contract, ranked_run
from minitransformer.cli.common import print_line
from minitransformer.cli.train import format_error
from minitransformer.distributed.launch import launch
size, program, *words = sys.argv[1:]
work = partial(ranked_run.train, words) if program == "ranked_run.py" else partial(contract.check_group, *words)
sys.exit(launch(work, int(size), partial(print_line, "train"), format_error))
"""


def launch_command(size: int, program: str, *arguments: object) -> list[str]:
    """Starts ``program``, a file of this folder, as ``size`` ranks of ``launch``."""
    return [sys.executable, "-c", LAUNCH, str(size), program, *map(str, arguments)]


def launched(size: int, program: str, *arguments: object) -> Ended:
    return run(launch_command(size, program, *arguments))


def of_these_tests(pattern: str) -> list[Path]:
    """The files in /proc of all processes that these tests have started, or that those have."""
    return [path for folder in processes_with(MARK) for path in folder.glob(pattern)]


def wait_for(condition: Callable[[], object]) -> None:
    """Return when the condition holds; a test fails if it never does."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)


def wait_for_checkpoint(folder: Path) -> None:
    wait_for(lambda: list(folder.glob("checkpoints/update_*.npz")))


def in_threads(size: int, work: Callable[[int], object]) -> list:
    """work(rank) in a thread for each rank."""
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


def as_threads(size: int, work: Callable[[LocalCommunicator], object]) -> list:
    """work(communicator) in a thread for each rank, through memory as processes share it."""
    shared = SharedMemory(size, multiprocessing.get_context("spawn"))
    return in_threads(size, lambda rank: work(LocalCommunicator(rank, shared)))


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
    check_gone()


def check_gone() -> None:
    """No process of the job is left; mpiexec may end a moment before the last of them."""
    wait_for(lambda: not processes_with(MARK))
