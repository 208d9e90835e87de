"""Threads that work side by side, each with one BLAS thread.

NumPy computes elementwise work on one core, and OpenBLAS gains little from a second thread on small matrices. Threads
that each take a whole micro-batch keep all cores busy through both (figures in benchmarks/notes.md): NumPy lets go of
the GIL while it computes.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from minitransformer.backend import Array
from minitransformer.blas import blas_threads, core_count, limited_blas_threads

Result = TypeVar("Result")

# Elements of a vector worked on at a time: five float32 blocks of this size (Adam's) fit in a 2 MB L2 cache, so each
# pass reads memory once.
BLOCK = 65536
LARGE = 1 << 19
"""Numbers that work must read before a second thread gains more than its start takes (benchmarks/notes.md)."""


class Workers:
    """``size`` workers, numbered from 0; worker 0 is the calling thread.

    What they compute does not depend on which of them is faster: each is told its number and nothing else.
    """

    def __init__(self, size: int = 1):
        self.size = size
        self._threads = ThreadPoolExecutor(size - 1, thread_name_prefix="worker") if size > 1 else None

    @classmethod
    def for_shares(cls, shares: int, wanted: int = 0) -> Workers:
        """Workers for ``shares`` equal pieces of work on NumPy: ``wanted`` of them, or one for each core if that is 0.

        Fewer pieces than BLAS has threads would leave cores idle that BLAS uses: then there is one worker, with all of
        them. So there is where BLAS has no switch for its threads.
        """
        threads = blas_threads()
        if wanted == 0:
            fitting = min(shares, core_count())
            wanted = fitting if threads is not None and fitting >= threads else 1
        return cls(min(shares, wanted))

    def map(self, function: Callable[[int], Result]) -> list[Result]:
        """``[function(0), ..., function(size - 1)]``, side by side. What one raises is raised, after all have ended."""
        if self._threads is None:
            return [function(0)]
        with limited_blas_threads(1):
            # A copy of the context: warnings that the caller silenced stay silent in the other threads too.
            others = [
                self._threads.submit(contextvars.copy_context().run, function, number) for number in range(1, self.size)
            ]
            try:
                first = function(0)
            finally:
                for each in others:
                    each.exception()  # wait: nobody may still write into shared arrays after this call
            return [first, *(each.result() for each in others)]


SERIAL = Workers(1)
"""The calling thread, with all threads of BLAS."""


def parallel_for(function: Callable[[slice], None], length: int, size: int) -> None:
    """``function`` of consecutive parts of 0..length - 1, side by side in as many threads as BLAS has.

    size: numbers that all of it reads; work that is not `LARGE` is done here, as one part
    """
    workers = _like_blas(blas_threads() or 1) if size >= LARGE else SERIAL

    def part(worker: int) -> None:
        function(slice(length * worker // workers.size, length * (worker + 1) // workers.size))

    workers.map(part)


@cache
def _like_blas(size: int) -> Workers:
    return Workers(size)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_like_blas.cache_clear)  # a forked process has none of its parent's threads


def blocks_of(length: int, worker: int, workers: Workers) -> Iterator[slice]:
    """The blocks of a vector that ``worker`` works on. Blocks stay in the cache from the first pass to the last."""
    for start in range(worker * BLOCK, length, workers.size * BLOCK):
        yield slice(start, start + BLOCK)


def sum_into_first(vectors: Sequence[Array], workers: Workers = SERIAL) -> None:
    """vectors[0] += vectors[1] + ..., one after the other"""

    def add_blocks(worker: int) -> None:
        for block in blocks_of(len(vectors[0]), worker, workers):
            for other in vectors[1:]:
                vectors[0][block] += other[block]

    if len(vectors) > 1:
        workers.map(add_blocks)
