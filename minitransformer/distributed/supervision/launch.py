"""Starts all ranks of a job on this machine, supervises them, and leaves no process behind."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from minitransformer.blas import core_count
from minitransformer.distributed.supervision.rank_info import (
    ADDRESS,
    LAUNCHED,
    LOOPBACK,
    PORT,
    TOKEN,
    VARIABLES,
    find_rank_info,
    without_rank,
)
from minitransformer.distributed.supervision.supervisor import Supervisor
from minitransformer.distributed.timeouts import TIMEOUTS
from minitransformer.errors import ConfigError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Launch:
    """``size`` processes of ``python PROGRAM``; ``wait`` for their end.

    Each is a new Python process in a session of its own, never a fork of one that may have used CUDA. They and their
    supervisor know each other by a random token, which they inherit in the environment. Only these processes, children
    that have not been waited for, are ever sent a signal, whatever the supervisor receives.

    print_error: prints the one line that the user reads when a rank fails

    Raises:
        ConfigError: this process is itself one of several ranks, or its standard output or error is closed.
    """

    def __init__(self, program: Sequence[str], size: int, print_error: Callable[[str], object]):
        if find_rank_info().size > 1:
            raise ConfigError("launch: must be started once, got variables of a rank; start train itself by mpirun")
        if not _output_is_open():
            raise ConfigError("launch: standard output and error must be open, got one that is closed")
        self._processes: list[subprocess.Popen] = []
        token = secrets.token_hex()
        self._supervisor = Supervisor(size, print_error, token=token, explain=self._explain)
        threads = str(max(1, core_count() // size))
        shared = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads} | without_rank(os.environ)
        shared |= {ADDRESS: LOOPBACK, PORT: str(self._supervisor.port), LAUNCHED: "1", TOKEN: token}
        for rank in range(size):
            own = dict(zip(VARIABLES["torchrun"], map(str, (rank, size, rank, size)), strict=True))
            command = [sys.executable, *program]
            self._processes.append(
                subprocess.Popen(command, env=shared | own, stdin=subprocess.DEVNULL, start_new_session=True)
            )

    def wait(self) -> int:
        """The exit code of the job, when all ranks have ended: 0 if all went well."""
        supervisor = self._supervisor
        handlers = {number: signal.signal(number, self._forward) for number in SIGNALS}
        try:
            while not (supervisor.ended.wait(TIMEOUTS.poll) or self._all_have_ended() or self._one_ended_early()):
                pass
            if supervisor.failure is not None or supervisor.monitor.ranks:  # the error must have been printed
                supervisor.ended.wait(TIMEOUTS.shutdown)
            all_left = supervisor.ended.is_set() and supervisor.failure is None
            until = time.monotonic() + (TIMEOUTS.linger if all_left else TIMEOUTS.shutdown)
            while not self._all_have_ended() and time.monotonic() < until:
                time.sleep(TIMEOUTS.poll)
        finally:  # no process stays behind: those that have not ended by themselves are killed, stopped ones too
            for process in self._processes:
                process.kill()
                process.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if supervisor.failure is not None:
            return supervisor.failure.code
        worst = next((process.returncode for process in self._processes if process.returncode), 0)
        return worst if worst >= 0 else 128 - worst

    def _all_have_ended(self) -> bool:
        return all(process.poll() is not None for process in self._processes)

    def _one_ended_early(self) -> bool:
        """Whether a rank has failed, perhaps before it connected to the supervisor, which then does not notice."""
        for rank, process in enumerate(self._processes):
            if process.poll():
                self._supervisor.ended.wait(TIMEOUTS.exit_status)  # the supervisor may find a better explanation
                if self._supervisor.failure is None and process.returncode < 0:
                    reason = _how_it_ended(process.returncode)
                    self._supervisor.monitor.fail(f"rank {rank} ended before it connected: {reason}")
                    self._supervisor.ended.wait(TIMEOUTS.shutdown)  # it prints that and ends those that have connected
                return True
        return False

    def _explain(self, rank: int) -> str:
        """How ``rank`` ended."""
        process = self._processes[rank]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return _how_it_ended(process.wait(TIMEOUTS.exit_status))
        return "it was killed, or it crashed"

    def _forward(self, number: int, frame: object) -> None:
        """Pass a signal on to all ranks, which save and leave; before all have connected there is nothing to save."""
        if not self._supervisor.monitor.all_have_come():
            raise KeyboardInterrupt
        if sys.platform != "win32":  # there the console sends Ctrl-C to the ranks itself
            for process in self._processes:
                process.send_signal(number)


def _output_is_open() -> bool:
    """Whether standard output and error are open; else a socket would get the file descriptor of a closed one."""
    try:
        os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return sys.stdout is not None and sys.stderr is not None


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    out_of_memory = "; so the system does when memory runs out" if -code == signal.SIGKILL else ""
    return f"it was killed by signal {-code} ({signal.Signals(-code).name}{out_of_memory})"
