"""What ranks do together, on arrays: the interface of all engines."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from minitransformer.backend import Array
from minitransformer.distributed.supervision.client import SupervisorClient

PATIENCE = 3.0  # seconds between a collective that failed and the report of it: the hub hears of a lost rank before


class Communicator(ABC):
    """``size`` processes, this is number ``rank`` (from 0). All call the same methods in the same order.

    Arrays are contiguous: float32, float64 or int64 (NCCL: bfloat16 and float16 too); after every call all ranks hold
    the same bits. The engines see arrays, never a model.

    member: the line to the hub that watches over all ranks; None for a process alone
    fixed: sums are taken in the order of the ranks, and so have the same bits in every run and engine
    """

    def __init__(self, rank: int = 0, size: int = 1, member: SupervisorClient | None = None, fixed: bool = False):
        self.rank, self.size, self.member, self.fixed = rank, size, member, fixed

    @abstractmethod
    def all_reduce_sum(self, array: Array) -> None:
        """array = sum of the ranks' arrays, in place"""

    @abstractmethod
    def broadcast(self, array: Array, root: int = 0) -> None:
        """array = the array of rank ``root``, in place"""

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have come here."""

    def start_all_reduce_sum(self, array: Array) -> None:
        """Begin ``all_reduce_sum``; nobody may touch ``array`` until ``finish``. An engine may do all of it here."""
        self.all_reduce_sum(array)

    @abstractmethod
    def finish(self) -> None:
        """Return when all sums that were started may be read (on a GPU: by what is queued after this call)."""

    @abstractmethod
    def abort(self, code: int = 2) -> None:
        """End the ranks that this engine knows, at once and with exit code ``code``; from any thread."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the engine holds; called once, by all ranks, after the last collective."""

    def gather_text(self, key: str, text: str) -> list[str]:
        """The texts of all ranks, in their order; ``key`` is used once."""
        return [text] if self.member is None else self.member.gather(key, text)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a collective: the hub ends the job if it lasts longer than the deadline."""
        with nullcontext() if self.member is None else self.member.waiting():
            try:
                yield
            except (OSError, RuntimeError):  # most likely another rank has gone
                time.sleep(PATIENCE)  # the hub knows which, and ends this process
                raise

    def busy(self, doing: str) -> AbstractContextManager:
        """Around work for which the others may have to wait long, such as ``"validates"``: no deadline runs."""
        return nullcontext() if self.member is None else self.member.busy(doing)


def add_in_order(gathered: Array, array: Array) -> None:
    """array = ((gathered[0] + gathered[1]) + gathered[2]) + ...      (size, n) to (n,)"""
    array[...] = gathered[0]
    for other in gathered[1:]:
        array += other
