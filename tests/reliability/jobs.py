"""A training as a job of one or several processes: how it is started and interrupted, and how it must end."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.reliability.observed_command import EVENT_LOG
from tests.systems import find_mpiexec, processes_with

TOP = Path(__file__).parents[2]
TIMEOUT = 60  # seconds within which a job that is interrupted or complete must end
SMALLEST_LIMIT = 1 << 16  # bytes; metrics and event logs are smaller, checkpoints are larger
PHASES = {"batch": "update", "saving": "save", "saved": "update", "validating": "validation", "validated": "update"}
PHASES["done"] = "end"
"""The phase of rank 0 after each event; after others and before all, ``start``: imports, data, the checkpoint."""


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
        return [*([find_mpiexec(), "-n", str(self.ranks)] if self.launcher else []), *program, *train]


class Job:
    """A running job. log: the file of its events, which also identifies its processes; the output is beside it"""

    def __init__(self, start: Start, command: list[str], log: Path):
        self._start, self.log, self.output = start, log, log.with_suffix(".out")
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TOP), EVENT_LOG: str(log)}
        options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "start_new_session": True}
        self.began = time.monotonic()
        with open(self.output, "wb") as output:
            self.root = subprocess.Popen(command, env=environment, stdout=output, **options)

    def has_ended(self) -> bool:
        return self.root.poll() is not None

    def processes(self) -> dict[int, str]:
        """The running processes by pid: ``rank 0``, ``rank 1``..., ``process`` or ``launcher``, or ``proxy``: between
        mpiexec and its ranks, or a helper of Python's multiprocessing.
        """
        names = {int(values[0]): f"rank {rank}" for _, rank, event, *values in self.events() if event == "joined"}
        names[self.root.pid] = "launcher" if self._start.launcher else "process"
        found = (int(folder.name) for folder in processes_with(f"{EVENT_LOG}={self.log}"))
        return {process: names.get(process, "proxy") for process in found}

    def events(self) -> list[list[str]]:
        """The fields of each logged event."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def count(self, event: str) -> int:
        return self.log.read_bytes().count(f" {event} ".encode()) if self.log.exists() else 0

    def phase(self) -> str:
        """The current or last phase of rank 0; ``start`` until all ranks have begun an update."""
        events = self.events()
        begun = {rank for _, rank, event, *_ in events if event == "batch"}
        last = next((event for _, rank, event, *_ in reversed(events) if rank == "0"), "")
        return PHASES.get(last, "start") if len(begun) == self._start.ranks else "start"

    def messages(self) -> list[str]:
        """The lines of its output."""
        return self.output.read_text(errors="replace").splitlines()

    def end(self) -> float:
        """Wait until no process of the job is left; returns the time in seconds."""
        try:
            return wait_until(lambda: self.has_ended() and not self.processes(), "a job must leave no process")
        except GuaranteeViolation as violation:
            left = self.processes()
            send(signal.SIGKILL, list(left))
            self.root.wait()
            raise GuaranteeViolation(f"{violation}, got {sorted(left.values())} ({self.root.args})") from None

    def interrupt(self, kind: str, folder: Path, rng: np.random.Generator) -> str:
        """Interrupt it, a run in ``folder``; returns the process that is interrupted, or how much room it has."""
        if kind == "file-size-limit":  # smaller than a checkpoint
            size = max((path.stat().st_size for path in folder.glob("checkpoints/update_*.npz")), default=1 << 20)
            limit = int(rng.integers(SMALLEST_LIMIT, size))
            with suppress(ProcessLookupError):
                resource.prlimit(self.root.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            return f"{100 * limit // size} %"
        target, processes = self._choose(rng, all_at_once=0.1 if kind in ("SIGKILL", "SIGSTOP") else 0)
        send(signal.Signals[kind], processes)
        if kind == "SIGSTOP":
            time.sleep(rng.uniform(0.01, 0.5))
            send(signal.SIGCONT, processes)
        return target

    def _choose(self, rng: np.random.Generator, all_at_once: float) -> tuple[str, list[int]]:
        """The launcher, a rank or, with the probability ``all_at_once``, all processes, as in a power failure."""
        processes = self.processes()
        if len(processes) > 1 and rng.random() < all_at_once:
            return "all", list(processes)
        chosen = sorted(set(processes.values()) - {"proxy"})  # mpiexec does not notice its end, and the job continues
        if not chosen:
            return "none", []
        role = chosen[rng.integers(len(chosen))]
        return role, [int(rng.choice([process for process, its in processes.items() if its == role]))]

    def check_end(self, kind: str, target: str, phase: str) -> None:
        """At most one line of error; no traceback but Python's own where ``launch`` was killed as it started ranks.
        The exit code is 128 + the number of a signal that stops it, not 0 after SIGKILL, 2 where there is no room.
        """
        lines, code = self.messages(), self.root.returncode
        errors = [line for line in lines if line.startswith("minitransformer ")]
        require(len(errors) <= 1, f"one line must say why a job ended, got {errors}")
        if phase != "start" or target not in ("launcher", "all"):
            require(not any("Traceback" in line for line in lines), f"no traceback must be printed, got {lines[-20:]}")
        if kind == "SIGKILL":
            require(code != 0 or phase == "end", f"a killed job must not end with 0 in phase {phase}")
        elif kind == "file-size-limit":
            if code != 0:  # 0: training was complete
                named = len(errors) == 1 and "File too large; make room" in errors[0]
                require(code == 2 and named, f"code 2 and a line must name reason and remedy, got {code}, {errors}")
        elif phase not in ("start", "end") and not (code == -signal.Signals[kind] and self.phase() == "end"):
            number = 128 + signal.Signals[kind]
            require(code == number, f"exit code must be {number}, got {code}")


def send(number: int, processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)
