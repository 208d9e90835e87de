"""Threads that work in parallel, each with one BLAS thread.

NumPy does elementwise work on one core, and OpenBLAS gains little from a second thread on small matrices. Threads that
each take a whole micro-batch keep all cores busy through both (figures in benchmarks/notes.md): NumPy releases the GIL
while it computes.
"""

import contextvars
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from minitransformer.backend import Array
from minitransformer.blas import blas_threads, core_count, limited_blas_threads

Result = TypeVar("Result")

# Elements of a vector that are processed at a time: five float32 blocks of this size (Adam's) fit in a 2 MB L2 cache,
# so each pass reads memory once.
BLOCK = 65536
LARGE = 1 << 19
"""Elements that work must read before a second thread gains more than it costs to start (benchmarks/notes.md)."""


class Workers:
    """``size`` workers, numbered from 0; worker 0 is the calling thread.

    Results do not depend on which of them is faster: each is given its number and nothing else.
    """

    def __init__(self, size: int = 1):
        self.size = size
        self._threads = ThreadPoolExecutor(size - 1, thread_name_prefix="worker") if size > 1 else None

    @classmethod
    def for_shares(cls, shares: int, wanted: int = 0) -> "Workers":
        """Workers for ``shares`` equal shares of work on NumPy: ``wanted`` of them, or one per core if that is 0.

        With fewer shares than BLAS has threads, cores that BLAS would use were idle: then there is one worker, with all
        BLAS threads. The same holds if the number of BLAS threads cannot be set.
        """
        threads = blas_threads()
        if wanted == 0:
            fitting = min(shares, core_count())
            wanted = fitting if threads is not None and fitting >= threads else 1
        return cls(min(shares, wanted))

    def map(self, function: Callable[[int], Result]) -> list[Result]:
        """``[function(0), ..., function(size - 1)]``, in parallel. What one raises is raised after all have ended."""
        if self._threads is None:
            return [function(0)]
        with limited_blas_threads(1):
            # A copy of the context: the caller's kernel mode and silenced warnings hold in the other threads too.
            others = [
                self._threads.submit(contextvars.copy_context().run, function, number) for number in range(1, self.size)
            ]
            try:
                first = function(0)
            finally:
                for each in others:
                    each.exception()  # wait: after this call no thread may still write into shared arrays
            return [first, *(each.result() for each in others)]


SERIAL = Workers(1)
"""The calling thread, with all threads of BLAS."""


def parallel_for(function: Callable[[slice], None], length: int, size: int) -> None:
    """``function`` of consecutive slices of 0..length - 1, in parallel, in as many threads as BLAS has.

    size: elements that are read in all; work below `LARGE` is done in this thread, as one slice
    """
    if size < LARGE:
        function(slice(0, length))
        return
    workers = _like_blas(blas_threads() or 1)

    def part(worker: int) -> None:
        function(slice(length * worker // workers.size, length * (worker + 1) // workers.size))

    workers.map(part)


@cache
def _like_blas(size: int) -> Workers:
    return Workers(size)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_like_blas.cache_clear)  # a forked process does not have its parent's threads


def blocks_of(length: int, worker: int, workers: Workers) -> Iterator[slice]:
    """The blocks of a vector that ``worker`` works on. A block stays in cache from the first pass to the last."""
    for start in range(worker * BLOCK, length, workers.size * BLOCK):
        yield slice(start, start + BLOCK)


def sum_into_first(vectors: Sequence[Array], workers: Workers = SERIAL) -> None:
    """vectors[0] += vectors[1] + ..., in order"""

    def add_blocks(worker: int) -> None:
        for block in blocks_of(len(vectors[0]), worker, workers):
            for other in vectors[1:]:
                vectors[0][block] += other[block]

    if len(vectors) > 1:
        workers.map(add_blocks)
