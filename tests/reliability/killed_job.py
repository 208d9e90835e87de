"""A training as a job of one or several processes: its command, processes, events, output and end."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.reliability.observed_command import EVENT_LOG

TOP = Path(__file__).parents[2]
TIMEOUT = 60  # seconds within which a job that is interrupted or complete must end
PHASES = {
    "joined": "start",
    "": "start",  # imports, reading of data, finding and loading the checkpoint
    "running": "start",
    "batch": "update",
    "saving": "save",
    "saved": "update",
    "validating": "validation",
    "validated": "update",
    "done": "end",
}
"""The phase of rank 0 after each event."""


def find_mpiexec() -> str:
    """The command that starts ranks of MPI, or "" where it or mpi4py is missing."""
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    return (beside or shutil.which("mpiexec") or "") if importlib.util.find_spec("mpi4py") else ""


class GuaranteeViolation(Exception):
    """A guarantee of training does not hold."""


def require(condition: object, message: str) -> None:
    if not condition:
        raise GuaranteeViolation(message)


def wait_until(condition: Callable[[], object], message: str, seconds: float = TIMEOUT) -> float:
    """Wait for the condition; returns the time in seconds. Raises GuaranteeViolation after ``seconds``."""
    began = time.monotonic()
    while not condition():
        require(time.monotonic() - began < seconds, f"{message} within {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - began


@dataclass(frozen=True)
class Start:
    """How a job is started: launcher (none, ``launch`` or ``mpiexec``), number of ranks, threads of each."""

    launcher: str = ""
    ranks: int = 1
    threads: int = 1

    def command(self, config: Path, *settings: str) -> list[str]:
        program = [sys.executable, str(Path(__file__).with_name("observed_command.py"))]
        train = ["train", str(config)]
        for setting in (f"training.threads={self.threads}", *settings):
            train += ["--set", setting]
        if self.launcher == "launch":
            return [*program, "launch", "-n", str(self.ranks), "--", *train]
        if self.launcher == "mpiexec":
            return [find_mpiexec(), "-n", str(self.ranks), *program, *train]
        return [*program, *train]


class Job:
    """A running job.

    start: how ``command`` starts it
    log: the file of its events, whose name also identifies its processes; the output goes to a file beside it
    """

    def __init__(self, start: Start, command: list[str], log: Path):
        self._start = start
        self.log, self.output = log, log.with_suffix(".out")
        self._mark = f"{EVENT_LOG}={log}".encode()
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TOP), EVENT_LOG: str(log)}
        self.began = time.monotonic()
        with open(self.output, "wb") as output:
            self.root = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        return self.root.poll() is not None

    def processes(self) -> dict[int, str]:
        """The running processes by pid: ``rank 0``, ``rank 1``..., ``process`` or ``launcher``, or ``proxy``: between
        mpiexec and its ranks, or a helper of Python's multiprocessing.
        """
        found = {}
        ranks = {int(values[0]): rank for _, rank, event, *values in self.events() if event == "joined"}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                variables, process = path.read_bytes().split(b"\0"), int(path.parent.name)
                if self._mark in variables:
                    if process == self.root.pid:
                        found[process] = "launcher" if self._start.launcher else "process"
                    else:
                        found[process] = f"rank {ranks[process]}" if process in ranks else "proxy"
        return found

    def events(self) -> list[list[str]]:
        """The fields of each logged event."""
        text = self.log.read_text() if self.log.exists() else ""
        return [line.split() for line in text.splitlines()]

    def count(self, event: str) -> int:
        return self.log.read_bytes().count(f" {event} ".encode()) if self.log.exists() else 0

    def phase(self) -> str:
        """The current or last phase of rank 0; ``start`` until all ranks have begun an update."""
        events = self.events()
        begun = {rank for _, rank, event, *_ in events if event == "batch"}
        last = next((event for _, rank, event, *_ in reversed(events) if rank == "0"), "")
        return PHASES[last] if len(begun) == self._start.ranks else "start"

    def messages(self) -> list[str]:
        """The lines of its output."""
        return self.output.read_text(errors="replace").splitlines()

    def errors(self) -> list[str]:
        """The lines that state why it ended."""
        return [line for line in self.messages() if line.startswith("minitransformer ")]

    def end(self) -> float:
        """Wait until no process of the job is left; returns the time in seconds."""
        try:
            return wait_until(lambda: self.has_ended() and not self.processes(), "a job must leave no process")
        except GuaranteeViolation as violation:
            left = self.processes()
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, 9)
            self.root.wait()
            raise GuaranteeViolation(f"{violation}, got {sorted(left.values())} ({self.root.args})") from None


def check_unlocked(folder: Path) -> None:
    """Require that the folder of a run that has ended is unlocked, as soon as the system has closed all its files."""
    descriptor = os.open(folder, os.O_RDONLY)

    def is_free() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        wait_until(is_free, f"{folder} must be unlocked", seconds=5)
    finally:
        os.close(descriptor)
