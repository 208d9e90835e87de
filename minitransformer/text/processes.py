"""Parallel processing of large text by several processes, in order and with bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import TypeVar

from minitransformer.errors import DataError

CHUNK_LINES = 5000
"""Lines, or pairs of lines, per task: about a megabyte of text."""
MAX_CHARACTERS = 1 << 24
"""Characters per task, if lines are long."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_processes(function: Callable[[Task], Result], tasks: Iterable[Task], processes: int) -> Iterator[Result]:
    """Apply ``function`` to each task, in order; at most two tasks per process are taken from ``tasks`` ahead of time.

    function: must be picklable, and so must its argument and result; with one process it is called in this one

    Raises:
        DataError: a process died, for example killed by the system for lack of memory; also what ``function`` raises.
    """
    tasks = iter(tasks)
    first = list(islice(tasks, 2))
    tasks = chain(first, tasks)
    if processes <= 1 or len(first) < 2:  # one task is done before a process has started
        yield from map(function, tasks)
        return
    context = multiprocessing.get_context("spawn")  # fork would copy locks that BLAS threads may hold
    pool = ProcessPoolExecutor(processes, context, initializer=_follow_main_process)
    submitted = (_submit(pool, function, task) for task in tasks)
    try:
        pending = deque(islice(submitted, 2 * processes))
        while pending:
            yield pending.popleft().result()
            pending.extend(islice(submitted, 1))
    except BrokenProcessPool as error:
        raise DataError(
            "processes: each must run until its work is done, got one that died (out of memory?); use fewer with "
            "--processes"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def in_chunks(rows: Iterable[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """Lists of ``CHUNK_LINES`` lines or pairs of lines, shorter where lines are long: tasks worth another process."""
    chunk, size = [], 0
    for row in rows:
        chunk.append(row)
        size += sum(map(len, row))
        if len(chunk) == CHUNK_LINES or size >= MAX_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _submit(pool: ProcessPoolExecutor, function: Callable[[Task], Result], task: Task) -> "Future[Result]":
    """A process that is started here ignores Ctrl-C; this one gets it afterwards, if it has no other threads."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return pool.submit(function, task)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(function, task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_main_process() -> None:
    """Ctrl-C sends SIGINT to all processes of a terminal: the main process stops the others. If the main process is
    killed, they end too."""

    def end_with_it() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_it, daemon=True).start()
