"""Memory, open files and threads of a process, sampled while it runs, and whether they stay flat."""

import math
import os
import signal
import subprocess
import time
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

MEMORY_DRIFT = 4.0
"""MB by which the memory may grow in the second half of a run: the robust slope times the duration."""

SPARE_FILES = 2
"""Files that may be open in the second half in addition to the maximum of the first: those being written."""


@dataclass(frozen=True)
class Sample:
    """At ``seconds`` since the start: resident memory in MB (10^6 bytes), open files, threads."""

    seconds: float
    megabytes: float
    files: int
    threads: int


def can_watch() -> bool:
    """Whether this system has Linux's /proc."""
    return Path("/proc/self/statm").is_file() and Path("/proc/self/fd").is_dir()


def sample(pid: int, began: float) -> Sample | None:
    """The current resources of the process; None if it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        pages = int((folder / "statm").read_text().split()[1])
        if not pages:  # a process that has ended and has not been waited for
            return None
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        counts = (sum(1 for _ in (folder / name).iterdir()) for name in ("fd", "task"))
        return Sample(time.monotonic() - began, megabytes, *counts)
    except OSError:
        return None


def watch(
    process: subprocess.Popen, *, every: float = 1.0, ready: Path | None = None, seconds: float = math.inf
) -> list[Sample]:
    """Samples of the process until it ends.

    every: seconds between two samples
    seconds: the process is sent SIGTERM, on which it saves and exits, this long after the file ``ready`` exists
    """
    began, samples, until = time.monotonic(), [], math.inf
    while process.poll() is None:
        now = sample(process.pid, began)
        if now is not None:
            samples.append(now)
        if until == math.inf and ready is not None and ready.exists():
            until = time.monotonic() + seconds
        if time.monotonic() > until:
            process.send_signal(signal.SIGTERM)
            ready, until = None, math.inf
        try:
            process.wait(every)
        except subprocess.TimeoutExpired:
            continue
    return samples


def robust_slope(x: np.ndarray, y: np.ndarray, most: int = 600) -> float:
    """The median of the slopes between all pairs of points [Theil 1950, Sen 1968]: robust to single peaks.

    most: number of points that are used, evenly spaced
    """
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), most)).astype(int))
    x, y = np.asarray(x, float)[chosen], np.asarray(y, float)[chosen]
    one, other = np.triu_indices(len(x), k=1)
    return float(np.median((y[other] - y[one]) / (x[other] - x[one])))


def flatness(samples: list[Sample]) -> dict:
    """The second half of a run compared with the first.

    ``flat``: memory grows by at most `MEMORY_DRIFT` along the robust line, files and threads have no slope, and there
    are no more threads and at most `SPARE_FILES` more files than in the first half.
    """
    table = np.array([astuple(each) for each in samples])
    first, second = np.array_split(table, 2)
    length = second[-1, 0] - second[0, 0]
    slopes = [robust_slope(second[:, 0], second[:, column]) for column in (1, 2, 3)]
    most = {"first half": first.max(axis=0), "second half": second.max(axis=0)}
    flat = (
        slopes[0] * length <= MEMORY_DRIFT
        and slopes[1] == slopes[2] == 0
        and most["second half"][2] <= most["first half"][2] + SPARE_FILES
        and most["second half"][3] <= most["first half"][3]
    )
    return {
        "MB per hour": round(slopes[0] * 3600, 3),
        "MB in the second half": round(slopes[0] * length, 3),
        "MB, median of the second half": round(float(np.median(second[:, 1])), 1),
        **{f"maximum MB, {half}": round(float(row[1]), 1) for half, row in most.items()},
        **{f"maximum open files, {half}": int(row[2]) for half, row in most.items()},
        **{f"maximum threads, {half}": int(row[3]) for half, row in most.items()},
        "flat": bool(flat),
    }
