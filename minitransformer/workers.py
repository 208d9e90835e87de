"""Threads that work in parallel.

NumPy does elementwise work on one core. Threads that each take a whole micro-batch keep all cores busy through both
elementwise work and products (figures in benchmarks/notes.md), as NumPy releases the GIL while it computes. They sleep
while they wait, so they cost nothing when other programs need the cores.
"""

import contextvars
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from minitransformer.backend import Array
from minitransformer.blas import product_threads

Result = TypeVar("Result")

# Elements of a vector that are processed at a time: five float32 blocks of this size (Adam's) fit in a 2 MB L2 cache,
# so each pass reads memory once.
BLOCK_ELEMENTS = 65536
LARGE = 1 << 19
"""Number of elements from which a second thread gains more than it costs to start (benchmarks/notes.md)."""

_limit: contextvars.ContextVar[int] = contextvars.ContextVar("threads", default=0)


def thread_count() -> int:
    """Threads that large work may use here."""
    return _limit.get() or product_threads()


@contextmanager
def limit_threads(number: int) -> Iterator[None]:
    """Within the block large work uses at most ``number`` threads; 0: as many as before."""
    token = _limit.set(min(number or thread_count(), thread_count()))
    try:
        yield
    finally:
        _limit.reset(token)


class Workers:
    """``size`` workers, numbered from 0; worker 0 is the calling thread.

    Results do not depend on which of them is faster: each is given its number and nothing else.
    """

    def __init__(self, size: int):
        self.size = size
        self._threads = ThreadPoolExecutor(size - 1, thread_name_prefix="worker") if size > 1 else None

    @classmethod
    def for_shares(cls, shares: int, wanted: int = 0) -> "Workers":
        """Workers for ``shares`` equal shares of work on NumPy: ``wanted`` of them, or one per core if that is 0."""
        return cls(min(shares, wanted or thread_count()))

    def map(self, function: Callable[[int], Result]) -> list[Result]:
        """``[function(0), ..., function(size - 1)]``, in parallel. Exceptions are raised after all have ended."""
        if self._threads is None:
            return [function(0)]
        with limit_threads(max(1, thread_count() // self.size)):  # the others work on theirs
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
"""The calling thread."""


def parallel_for(function: Callable[[slice], None], length: int, is_large: bool) -> None:
    """Call ``function`` on consecutive slices of 0..length - 1, in parallel, one per available thread.

    is_large: whether threads gain anything; otherwise this thread does everything, as one slice
    """
    workers = _workers(max(1, min(thread_count(), length))) if is_large else SERIAL

    def part(worker: int) -> None:
        function(slice(length * worker // workers.size, length * (worker + 1) // workers.size))

    workers.map(part)


@cache
def _workers(size: int) -> Workers:
    return Workers(size)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # a forked process does not have its parent's threads


def for_blocks(function: Callable[[slice], None], length: int) -> None:
    """Call ``function`` on all blocks of a vector, in parallel. A block stays in cache from first pass to last."""

    def part(elements: slice) -> None:
        for start in range(elements.start, elements.stop, BLOCK_ELEMENTS):
            function(slice(start, min(start + BLOCK_ELEMENTS, elements.stop)))

    parallel_for(part, length, is_large=length >= LARGE)


def sum_into_first(vectors: Sequence[Array]) -> None:
    """vectors[0] += vectors[1] + ..., in order"""

    def add(block: slice) -> None:
        for other in vectors[1:]:
            vectors[0][block] += other[block]

    if len(vectors) > 1:
        for_blocks(add, len(vectors[0]))
