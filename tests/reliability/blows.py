"""What is done to a running job, and how it must end after that."""

import os
import resource
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.reliability.killed_job import LIMIT, Job, require

SMALLEST_LIMIT = 1 << 16  # bytes; metrics and notes stay below it, a checkpoint does not


def choose_target(job: Job, rng: np.random.Generator, all_at_once: float = 0.1) -> tuple[str, list[int]]:
    """A launcher, a rank or, with the probability ``all_at_once``, all processes, as when the power fails."""
    processes = job.processes()
    if len(processes) > 1 and rng.random() < all_at_once:
        return "all", list(processes)
    chosen = sorted(set(processes.values()) - {"proxy"})  # mpiexec does not notice that it is gone: the job goes on
    if not chosen:
        return "none", []
    role = chosen[rng.integers(len(chosen))]
    return role, [int(rng.choice([process for process, its in processes.items() if its == role]))]


def send(number: int, processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


class Blow:
    """``strike`` does it, and returns who was struck. ``ends``: whether the job ends of it."""

    ends = True

    def strike(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        raise NotImplementedError

    def check(self, job: Job, target: str, phase: str) -> None:
        """At most one line of error, and no traceback."""
        lines, errors = job.messages(), job.errors()
        require(len(errors) <= 1, f"one line must say why a job ended, got {errors}")
        require(not any("Traceback" in line for line in lines), f"no traceback must be printed, got {lines[-20:]}")


class Kill(Blow):
    """SIGKILL."""

    def strike(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        target, processes = choose_target(job, rng)
        send(signal.SIGKILL, processes)
        return target

    def check(self, job: Job, target: str, phase: str) -> None:
        super().check(job, target, phase)
        require(job.root.returncode != 0 or phase == "end", f"a killed job must not end with 0 in phase {phase}")


class Stop(Blow):
    """SIGTERM or SIGINT, on which a run saves, and ends with 128 + the number of the signal."""

    def __init__(self, number: int):
        self.number = number

    def strike(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        target, processes = choose_target(job, rng, all_at_once=0)
        send(self.number, processes)
        return target

    def check(self, job: Job, target: str, phase: str) -> None:
        super().check(job, target, phase)
        code = job.root.returncode
        if phase not in ("start", "end") and not (code == -self.number and job.phase() == "end"):
            require(code == 128 + self.number, f"exit code must be {128 + self.number}, got {code}")


class Pause(Blow):
    """SIGSTOP and, half a second later or sooner, SIGCONT."""

    ends = False

    def strike(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        target, processes = choose_target(job, rng)
        send(signal.SIGSTOP, processes)
        time.sleep(rng.uniform(0.01, 0.5))
        send(signal.SIGCONT, processes)
        return target


class FullDisk(Blow):
    """The disk becomes full: the run ends with one line and exit code 2."""

    def check(self, job: Job, target: str, phase: str) -> None:
        super().check(job, target, phase)
        if job.root.returncode == 0:  # it was done
            return
        require(job.root.returncode == 2, f"exit code on a full disk must be 2, got {job.root.returncode}")
        reasons, errors = ("File too large", "No space left on device"), job.errors()
        named = len(errors) == 1 and any(f"{reason}; make room" in errors[0] for reason in reasons)
        require(named, f"one line must name the reason and a remedy, got {errors}")


class Limit(FullDisk):
    """No file may grow beyond a size in the middle of a checkpoint."""

    def strike(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        size = max((path.stat().st_size for path in folder.glob("checkpoints/update_*.npz")), default=1 << 20)
        most = int(rng.integers(SMALLEST_LIMIT, size))
        with suppress(ProcessLookupError):
            resource.prlimit(job.root.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return f"{100 * most // size} %"


class Fill(FullDisk):
    """The file system of the run is filled, but for less room than a checkpoint takes, until the job has ended."""

    def strike(self, job: Job, folder: Path, rng: np.random.Generator) -> str:
        size = max((path.stat().st_size for path in folder.glob("checkpoints/update_*.npz")), default=1 << 20)
        room, ballast, began = int(rng.integers(0, size)), folder / "ballast", time.monotonic()
        with open(ballast, "wb", buffering=0) as file:
            while not job.has_ended():
                if (free := shutil.disk_usage(folder).free) > room:
                    with suppress(OSError):
                        file.write(bytes(free - room))
                require(time.monotonic() - began < LIMIT, "a run must end when the disk is full")
                time.sleep(0.001)
        ballast.unlink()
        return f"{100 * room // size} %"


BLOWS: dict[str, Blow] = {
    "SIGKILL": Kill(),
    "SIGTERM": Stop(signal.SIGTERM),
    "SIGINT": Stop(signal.SIGINT),
    "SIGSTOP": Pause(),
    "limit": Limit(),
    "fill": Fill(),
}
