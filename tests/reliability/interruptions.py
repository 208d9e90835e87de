"""The interruptions of a running job, and how the job must end after each of them."""

import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.reliability.killed_job import Job, require

SMALLEST_LIMIT = 1 << 16  # bytes; metrics and event logs are smaller, checkpoints are larger


def choose_target(job: Job, rng: np.random.Generator, all_at_once: float = 0.1) -> tuple[str, list[int]]:
    """The launcher, a rank or, with the probability ``all_at_once``, all processes, as in a power failure."""
    processes = job.processes()
    if len(processes) > 1 and rng.random() < all_at_once:
        return "all", list(processes)
    chosen = sorted(set(processes.values()) - {"proxy"})  # mpiexec does not notice its end, and the job continues
    if not chosen:
        return "none", []
    role = chosen[rng.integers(len(chosen))]
    return role, [int(rng.choice([process for process, its in processes.items() if its == role]))]


def send(number: int, processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


class Interruption:
    """``interrupt`` returns the process that was interrupted. ``ends``: whether the interruption ends the job."""

    ends = True

    def interrupt(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        raise NotImplementedError

    def check(self, job: Job, target: str, phase: str) -> None:
        """At most one line of error; no traceback but Python's own where ``launch`` was killed as it started ranks."""
        lines, errors = job.messages(), job.errors()
        require(len(errors) <= 1, f"one line must say why a job ended, got {errors}")
        if phase != "start" or target not in ("launcher", "all"):
            require(not any("Traceback" in line for line in lines), f"no traceback must be printed, got {lines[-20:]}")


class Kill(Interruption):
    """SIGKILL."""

    def interrupt(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        target, processes = choose_target(job, rng)
        send(signal.SIGKILL, processes)
        return target

    def check(self, job: Job, target: str, phase: str) -> None:
        super().check(job, target, phase)
        require(job.root.returncode != 0 or phase == "end", f"a killed job must not end with 0 in phase {phase}")


class Stop(Interruption):
    """SIGTERM or SIGINT: a run saves a checkpoint and exits with 128 + the number of the signal."""

    def __init__(self, number: int):
        self.number = number

    def interrupt(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        target, processes = choose_target(job, rng, all_at_once=0)
        send(self.number, processes)
        return target

    def check(self, job: Job, target: str, phase: str) -> None:
        super().check(job, target, phase)
        code = job.root.returncode
        if phase not in ("start", "end") and not (code == -self.number and job.phase() == "end"):
            require(code == 128 + self.number, f"exit code must be {128 + self.number}, got {code}")


class Pause(Interruption):
    """SIGSTOP, and SIGCONT at most half a second later."""

    ends = False

    def interrupt(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        target, processes = choose_target(job, rng)
        send(signal.SIGSTOP, processes)
        time.sleep(rng.uniform(0.01, 0.5))
        send(signal.SIGCONT, processes)
        return target


class FileSizeLimit(Interruption):
    """A limit of the file size (RLIMIT_FSIZE) that is smaller than a checkpoint: one line and exit code 2."""

    def interrupt(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        size = max((path.stat().st_size for path in folder.glob("checkpoints/update_*.npz")), default=1 << 20)
        limit = int(rng.integers(SMALLEST_LIMIT, size))
        with suppress(ProcessLookupError):
            resource.prlimit(job.root.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        return f"{100 * limit // size} %"

    def check(self, job: Job, target: str, phase: str) -> None:
        super().check(job, target, phase)
        if job.root.returncode == 0:  # training was complete
            return
        require(job.root.returncode == 2, f"exit code without room must be 2, got {job.root.returncode}")
        errors = job.errors()
        named = len(errors) == 1 and "File too large; make room" in errors[0]
        require(named, f"one line must name the reason and a remedy, got {errors}")


INTERRUPTIONS: dict[str, Interruption] = {
    "SIGKILL": Kill(),
    "SIGTERM": Stop(signal.SIGTERM),
    "SIGINT": Stop(signal.SIGINT),
    "SIGSTOP": Pause(),
    "file-size-limit": FileSizeLimit(),
}
