"""What a command line costs: its time, the memory of the command and its children, and what it adds to the disk."""

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

LOG = "log.txt"
PROGRAMS = ("minitransformer", "sacrebleu")
"""Commands of this Python's packages, which need not be on the PATH."""


@dataclass(frozen=True)
class Cost:
    """Seconds, bytes of memory at the worst moment, and bytes added to the disk. A page of memory that several
    processes share counts for each."""

    seconds: float
    peak_bytes: int
    disk_bytes: int


def cost_of(command: str, folder: Path, kill_when: Path | None = None) -> Cost:
    """Run a command line in ``folder``; its output is appended to log.txt there.

    kill_when: a file; as soon as it exists, the command and its children are killed

    Raises:
        SystemExit: the command failed; the message has the log.
    """
    began, peak, disk = time.perf_counter(), 0, disk_bytes(folder)
    program, *words = shlex.split(command)
    own = {"python": [sys.executable]} | {name: [sys.executable, "-m", name] for name in PROGRAMS}
    line = [*own.get(program, [program]), *words]
    with open(folder / LOG, "a", encoding="utf-8") as log:
        print(f"\n$ {command}", file=log, flush=True)
        process = subprocess.Popen(line, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            while process.poll() is None:
                peak = max(peak, sum(map(_resident_bytes, _family(process.pid))))
                if kill_when is not None and kill_when.exists():
                    break
                time.sleep(0.05)
        finally:  # killed on purpose, or interrupted: nothing of it stays behind
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode != (0 if kill_when is None else -signal.SIGKILL):
        text = (folder / LOG).read_text(encoding="utf-8")
        raise SystemExit(f"{command} failed with status {process.returncode}:\n{text[-5000:]}")
    return Cost(time.perf_counter() - began, peak, disk_bytes(folder) - disk)


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _family(pid: int) -> list[int]:
    """The process and all its descendants."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(child))]


def _words(path: Path) -> list[str]:
    return path.read_text().split()


def _resident_bytes(pid: int) -> int:
    try:
        return int(_words(Path(f"/proc/{pid}/statm"))[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # it has just ended
        return 0
