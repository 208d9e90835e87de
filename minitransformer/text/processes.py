"""Parallel processing of large text by several processes, in order and with bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from typing import TypeVar

from minitransformer.errors import DataError

CHUNK = 5000
"""Pairs of lines per task, about a megabyte of text."""
MAX_CHARACTERS = 1 << 24
"""Characters per task, if lines are long."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_processes(function: Callable[[Task], Result], tasks: Iterable[Task], processes: int) -> Iterator[Result]:
    """``function`` of each task, in order; at most two tasks per process are taken from ``tasks`` ahead of time.

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
    with ProcessPoolExecutor(processes, context, initializer=_follow_main_process) as pool:
        waiting = deque()
        try:
            for task in tasks:
                with _interrupts_wait():
                    waiting.append(pool.submit(function, task))
                if len(waiting) > 2 * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise DataError(
                "processes: each must run until its work is done, got one that died (out of memory?); use fewer "
                "with --processes"
            ) from error
        finally:
            for each in waiting:
                each.cancel()


def in_chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Lists of ``CHUNK`` pairs of lines, shorter at the end and where lines are long: tasks worth another process."""
    chunk, size = [], 0
    for pair in pairs:
        chunk.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(chunk) == CHUNK or size >= MAX_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """A process that is started in the block does not heed Ctrl-C, and this one, without other threads, at the end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_main_process() -> None:
    """Ctrl-C sends SIGINT to all processes of a terminal: the main process stops the others. If it is killed itself,
    they end too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_after_main_process, daemon=True).start()


def _end_after_main_process() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
