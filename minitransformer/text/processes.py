"""Long work on text shared out between processes, in order and with little in memory at a time."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from minitransformer.errors import DataError

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_processes(function: Callable[[Task], Result], tasks: Iterable[Task], processes: int) -> Iterator[Result]:
    """``function`` of each task, in order; at most two tasks for each process are taken ahead.

    function: one that can be pickled, as everything it takes and returns; with one process it is called here

    Raises:
        DataError: a process died, as the system ends one that takes too much memory; also what ``function`` raises.
    """
    if processes <= 1:
        yield from map(function, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads of BLAS may hold
    with ProcessPoolExecutor(processes, context, initializer=_ignore_interrupts) as pool:
        waiting = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(function, task))
                if len(waiting) > 2 * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise DataError(
                "processes: each must live until its work is done, got one that died (out of memory?); use fewer "
                "with --processes"
            ) from error
        finally:
            for each in waiting:
                each.cancel()


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
