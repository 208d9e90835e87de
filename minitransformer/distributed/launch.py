"""Starts all ranks of a job on this machine, watches them, and leaves no process behind."""

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext, SpawnProcess

from minitransformer.blas import core_count
from minitransformer.distributed.local import SharedMemory
from minitransformer.distributed.process_group import ProcessGroup, find_ranks
from minitransformer.errors import ConfigError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
POLL, LINGER = 0.1, 30.0
"""Seconds after which a signal is passed on, and in which a rank that has done its work must end."""

Work = Callable[[ProcessGroup], int]
FormatError = Callable[[BaseException], tuple[str, int]]

QUIET = "ignore:resource_tracker:UserWarning"
"""Python prints this warning if all ranks are killed at once."""


def launch(work: Work, size: int, print_error: Callable[[str], object], format_error: FormatError) -> int:
    """Run ``work(process group)`` in ``size`` new Python processes; return the job's exit code, 0 if all went well.

    A rank reports the end of its work, or its failure, through a pipe. The first that fails, or ends without a report,
    ends all. SIGINT, SIGTERM and SIGHUP are passed on to the ranks, which save and leave.

    work, format_error: functions of a module, since the new processes import them
    print_error: prints the one line that the user reads when a rank fails

    Raises:
        ConfigError: this process is itself one of several ranks, or its standard output or error is closed.
        KeyboardInterrupt: a signal came before all ranks had joined.
    """
    if find_ranks()[1] > 1:
        raise ConfigError("launch: must be started once, got the variables of a rank; start train itself with mpiexec")
    if not _output_is_open():
        raise ConfigError("launch: standard output and error must be open, got one that is closed")
    threads = str(max(1, core_count() // size))  # the ranks share the cores; BLAS reads this when it is loaded
    os.environ |= {"OPENBLAS_NUM_THREADS": threads, "PYTHONWARNINGS": QUIET} | os.environ
    context = multiprocessing.get_context("spawn")  # never a fork of a process that may have used CUDA
    shared, started, noted = _share(size, context), {}, []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # in the ranks too, until each has a session of its own
        for rank in range(size):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_run_rank, args=(work, format_error, rank, shared, sender))
            process.start()
            sender.close()  # so that the pipe ends with the rank
            started[receiver] = process
        for number, handler in before.items():
            if number == signal.SIGINT or handler is not signal.SIG_IGN:  # as SIGHUP is under nohup
                signal.signal(number, lambda number, frame: noted.append(number))
        return _wait(started, noted, shared, print_error)
    finally:  # no process stays behind, not even one that is stopped
        for process in started.values():
            process.kill()
            process.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def _share(size: int, context: BaseContext) -> SharedMemory:
    """This starts Python's resource tracker, which ignores SIGINT and SIGTERM, and must not end with the terminal."""
    if not hasattr(signal, "SIGHUP"):
        return SharedMemory(size, context)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which it inherits
    try:
        return SharedMemory(size, context)
    finally:
        signal.signal(signal.SIGHUP, before)


def _wait(
    started: dict[Connection, SpawnProcess], noted: list[int], shared: SharedMemory, print_error: Callable
) -> int:
    """The exit code of the job, when all ranks are done or one has failed."""
    running, worst = list(started), 0
    while running:
        ready = wait(running, POLL)
        while noted:
            _pass_on(noted.pop(), started.values(), shared)
        for receiver in [each for each in running if each in ready]:  # the lowest rank first
            running.remove(receiver)
            try:
                message, code = json.loads(receiver.recv_bytes())
            except EOFError:
                rank = list(started).index(receiver)
                message, code = f"rank {rank} {_how_it_ended(started[receiver])}", 2
            if message is not None:
                print_error(message)
                return code
            worst = max(worst, code)
    for process in started.values():
        process.join(LINGER)
    return worst


def _pass_on(number: int, processes: list[SpawnProcess], shared: SharedMemory) -> None:
    """Pass a signal on to all ranks; before all have joined there is nothing to save."""
    if not all(shared.numbers):
        raise KeyboardInterrupt
    for process in processes:
        if process.is_alive() and sys.platform != "win32":  # there the console sends Ctrl-C to the ranks itself
            os.kill(process.pid, number)


def _run_rank(work: Work, format_error: FormatError, rank: int, shared: SharedMemory, sender: Connection) -> None:
    """What a new process does."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches only the process that launched this one, which passes it on
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_parent, args=[rank], name="parent", daemon=True).start()

    def report(message: str | None, code: int) -> None:
        sender.send_bytes(json.dumps([message, code]).encode())

    group = ProcessGroup(rank, shared.size, rank, shared=shared, report=report)
    with group.join(format_error):
        code = work(group)
    report(None, code)


def _end_with_parent(rank: int) -> None:
    """End this rank when the process that launched it has gone, whether or not anybody still reads why."""
    wait([multiprocessing.parent_process().sentinel])
    try:
        if rank == 0:
            print("minitransformer train: launch ended unexpectedly: it was killed, or it crashed", file=sys.stderr)
    finally:
        os._exit(2)


def _output_is_open() -> bool:
    """Whether standard output and error are open; else a pipe would get the file descriptor of a closed one."""
    try:
        os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return sys.stdout is not None and sys.stderr is not None


def _how_it_ended(process: SpawnProcess) -> str:
    process.join(LINGER)
    code = process.exitcode
    if code is None or code >= 0:
        return f"(process {process.pid}) ended unexpectedly, with exit code {code}"
    reason = " (as the system does when memory runs out)" if -code == getattr(signal, "SIGKILL", 0) else ""
    return f"(process {process.pid}) ended unexpectedly: it was killed by {signal.Signals(-code).name}{reason}"
