"""Starts all ranks of a job on this machine, watches over them, and leaves none behind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from minitransformer.blas import core_count
from minitransformer.distributed import past_mpiexec
from minitransformer.distributed.rank_info import ADDRESS, LAUNCHED, PORT, VARIABLES, find_rank_info
from minitransformer.distributed.supervision.supervisor import SETTLE, Supervisor
from minitransformer.errors import ConfigError, MissingPackageError, install_hint

POLL, FAREWELL = 0.02, 2.0  # seconds between two looks at the processes; and for them to end before they are killed
LINGER = 30.0  # seconds that ranks may take to end after they said good-bye
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else (signal.SIGINT, signal.SIGTERM)
HOST = "127.0.0.1"


class Launch:
    """``size`` processes of ``python PROGRAM``, started by MPI or by itself; ``wait`` for their end.

    Each is a new Python process in a session of its own, never a fork of one that may have used CUDA. Ranks of MPICH's
    mpiexec write past it; what it says itself is kept back, and told if nobody else knows why the job ended badly.

    start: "mpi", "plain", or "auto": MPI where mpi4py and an mpiexec are installed
    speak: prints the one line that the user is told when a rank ends badly

    Raises:
        ConfigError: this process is itself one of several ranks, or its standard output or error is closed.
        MissingPackageError: MPI is asked for and not installed.
    """

    def __init__(self, program: Sequence[str], size: int, speak: Callable[[str], object], start: str = "auto"):
        if find_rank_info().size > 1:
            raise ConfigError("launch: must be started once, got variables of a rank; start train itself by mpirun")
        if not _may_print():
            raise ConfigError("launch: standard output and error must be open, got one that is closed")
        mpiexec = _mpiexec() if start != "plain" else None
        if start == "mpi" and mpiexec is None:
            raise MissingPackageError(
                f"launch: --start mpi needs mpi4py and mpiexec, got no {_missing_of_mpi()}; {install_hint('mpi')}"
            )
        self._speak = speak
        self._processes: list[subprocess.Popen] = []
        self._by_mpi = mpiexec is not None
        self._kept: IO[bytes] | None = None  # what mpiexec says
        self._hub = Supervisor(size, self._end, host=HOST, explain=self._explain)
        if mpiexec is not None and _is_hydra(mpiexec):
            self._start_past(mpiexec, size, program)
        elif mpiexec is not None:
            self._start([mpiexec, "-n", str(size), sys.executable, *program], size, {})
        else:
            for rank in range(size):
                place = dict(zip(VARIABLES["torchrun"], map(str, (rank, size, rank)), strict=True))
                self._start([sys.executable, *program], size, place)

    def wait(self) -> int:
        """The exit code of the job, when all ranks have ended: 0 if all went well."""
        before = {number: signal.signal(number, self._forward) for number in SIGNALS}
        done = 0.0  # seconds since all ranks said good-bye
        try:
            while any(process.poll() is None for process in self._processes):
                time.sleep(POLL)
                done += POLL if self._hub.ended.is_set() else 0.0
                if done > LINGER or (done and self._hub.verdict) or (not self._hub.verdict and self._ended_early()):
                    break
            if self._hub.verdict is not None:
                self._hub.ended.wait(FAREWELL)  # the user must have been told
        finally:
            self._clear()
            for number, handler in before.items():
                signal.signal(number, handler)
            words = self._words_of_mpiexec()
        if self._hub.verdict is not None:
            return self._hub.verdict.code
        codes = [process.returncode for process in self._processes]
        if any(codes) and not self._hub.ended.is_set():
            sys.stderr.write(words)
        worst = next((code for code in codes if code), 0)
        if worst < 0:
            worst = 128 - worst
        return worst

    def _start_past(self, mpiexec: str, size: int, program: Sequence[str]) -> None:
        """Start MPICH's mpiexec and, past it, the ranks. It cannot name one that was killed: cleaning up is for us."""
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - closed by wait
        ours = [os.dup(descriptor) for descriptor in (1, 2)]
        past = [sys.executable, "-I", "-S", past_mpiexec.__file__, *map(str, ours), sys.executable, *program]
        words = [mpiexec, "-disable-auto-cleanup", "-n", str(size), *past]
        try:
            self._start(words, size, {}, stdout=self._kept, stderr=self._kept, pass_fds=ours)
        finally:
            for descriptor in ours:
                os.close(descriptor)

    def _words_of_mpiexec(self) -> str:
        if self._kept is None:
            return ""
        with self._kept:
            self._kept.seek(0)
            return self._kept.read().decode(errors="replace")

    def _start(self, words: list[str], size: int, place: dict[str, str], **streams: Any) -> None:
        threads = str(max(1, core_count() // size))
        environment = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads} | os.environ | place
        environment |= {ADDRESS: HOST, PORT: str(self._hub.port), LAUNCHED: "1"}
        self._processes.append(
            subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
        )

    def _ended_early(self) -> bool:
        """Whether a rank has ended badly and the hub did not hear of it: it ended before it came there."""
        bad = [process for process in self._processes if process.poll()]
        if not bad:
            return False
        self._hub.ended.wait(1.0)  # time for the hub to find a cause that says more
        if self._hub.verdict is None and bad[0].returncode < 0:
            self._speak(f"rank {self._processes.index(bad[0])} ended before it began: {_killed_by(bad[0].returncode)}")
        return True

    def _explain(self, rank: int) -> str:
        """How ``rank`` ended, as far as its parent can tell."""
        process = None if self._by_mpi else self._processes[rank]
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        if process is None or process.returncode is None:
            return "it was killed, or it crashed"
        return _killed_by(process.returncode)

    def _end(self, message: str) -> None:
        """The hub's verdict: tell the user, and silence an mpiexec whose lines are not kept back."""
        if self._by_mpi and self._kept is None:
            if self._hub.verdict.reported:
                time.sleep(SETTLE)  # it passes on what that rank has printed, a traceback for example
            self._processes[0].kill()
        self._speak(message)

    def _forward(self, number: int, frame: object) -> None:
        """Pass a signal on to all ranks, which save and leave; before all have come there is nothing to save."""
        processes = self._hub.processes
        if len(processes) < self._hub.watch.size:
            raise KeyboardInterrupt
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _clear(self) -> None:
        """No process stays behind: those that do not end by themselves are killed, stopped ones too."""
        until = time.monotonic() + FAREWELL
        ended_well = self._hub.verdict is None and not any(process.poll() for process in self._processes)
        while not ended_well and time.monotonic() < until and self._alive():
            time.sleep(POLL)
        for process in self._alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in self._processes:
            process.wait()

    def _alive(self) -> list[int]:
        """Our processes and the ranks, as far as they still run."""
        for process in self._processes:
            process.poll()
        ours = {process.pid for process in self._processes if process.returncode is None}
        return [process for process in ours | set(self._hub.processes) if process in ours or _is_running(process)]


def _may_print() -> bool:
    """Whether what ranks print has a way out; else one of our sockets would take the number of what is closed."""
    try:
        for descriptor in (1, 2):
            os.fstat(descriptor)
    except OSError:
        return False
    return sys.stdout is not None and sys.stderr is not None


def _is_running(process: int) -> bool:
    """Whether a process runs, or is stopped: not gone, and not only waiting for its parent to take note of its end."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def _killed_by(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    out_of_memory = "; so the system does when memory runs out" if -code == signal.SIGKILL else ""
    return f"it was killed by signal {-code} ({signal.Signals(-code).name}{out_of_memory})"


def _mpiexec() -> str | None:
    """The mpiexec of this Python's environment, or of the PATH; None where it or mpi4py is missing."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    beside = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")


def _missing_of_mpi() -> str:
    return "mpi4py" if importlib.util.find_spec("mpi4py") is None else "mpiexec"


def _is_hydra(mpiexec: str) -> bool:
    """Whether it is MPICH's."""
    return "HYDRA" in subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
