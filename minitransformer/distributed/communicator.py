"""What ranks do together, on arrays: the interface of all communicators."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitransformer.backend import Array


class Communicator(ABC):
    """One of ``size`` processes: number ``rank``, from 0. All call the same methods in the same order.

    Arrays are contiguous: float32, float64 or int64 (NCCL: bfloat16 and float16 too); after every call all ranks hold
    the same bits. Communicators see arrays, never a model, and know nothing of what started or watches the processes.

    board: SharedMemory if all ranks are on one machine, else None: ``numbers``, the sum that each has reached, and
        ``busy``, above 0 for each whose work may keep the others waiting for a long time
    """

    def __init__(self, rank: int = 0, size: int = 1, board: Any = None):
        self.rank, self.size, self.number = rank, size, 0
        self.board, self._is_waiting = board, False

    @abstractmethod
    def all_reduce_sum(self, array: Array) -> None:
        """array = sum of the ranks' arrays, in place."""

    def barrier(self) -> None:
        """Return when all ranks have called this."""
        self.all_reduce_sum(np.zeros(1))

    def close(self) -> None:  # noqa: B027 - not all need it
        """Release what the communicator holds; called once, by all ranks, after the last sum."""

    def gather_text(self, text: str) -> list[str]:
        """The texts of all ranks, in their order: a sum of their lengths, then one of their bytes."""
        own = np.frombuffer(text.encode(), np.uint8)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(own)
        self.all_reduce_sum(lengths)
        parts = [np.zeros(length, np.int64) for length in lengths]
        parts[self.rank][:] = own
        joined = np.concatenate([*parts, np.zeros(1, np.int64)])  # an array of at least one element
        self.all_reduce_sum(joined)
        return [bytes(part.tolist()).decode() for part in np.split(joined, np.cumsum(lengths))[: self.size]]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a sum in which this process waits for the others."""
        self.number += 1
        if self.board is not None:
            self.board.numbers[self.rank] = self.number
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False

    def awaited_sum(self) -> int:
        """The number of the sum in which this rank waits for the others; 0: it does not, or one of them is busy."""
        is_one_busy = self.board is not None and any(self.board.busy)
        return self.number if self._is_waiting and not is_one_busy else 0

    def explain_wait(self, timeout: float) -> str:
        """Why the job ends after this rank has waited for ``timeout`` seconds."""
        numbers = [self.number] if self.board is None else list(self.board.numbers)
        if late := [str(rank) for rank, number in enumerate(numbers) if number < self.number]:
            return (
                f"rank{'s' * (len(late) > 1)} {', '.join(late)} must reach sum {self.number} within {timeout:g} s "
                f"(training.timeout), as the others have, got only to sum {min(numbers)}; is a process stopped?"
            )
        return (
            f"rank {self.rank}: sum {self.number} must end within {timeout:g} s (training.timeout), got no answer from "
            "another rank: it is stopped or cannot be reached, or it validates for longer (then set a longer timeout)"
        )

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Around work that may keep the others waiting for a long time, such as validation. On one machine no timeout
        runs; on several the others do not know of it, and ``training.timeout`` must be longer than the work."""
        flags = [0] * self.size if self.board is None else self.board.busy
        flags[self.rank] = 1
        try:
            yield
        finally:
            flags[self.rank] = 0


class SingleProcess(Communicator):
    """Rank 0 of 1: every sum is complete already."""

    def all_reduce_sum(self, array: Array) -> None:
        pass


SINGLE_PROCESS = SingleProcess()
"""The rank of a run in one process."""


def add_in_order(gathered: Array, total: Array) -> None:
    """total = ((gathered[0] + gathered[1]) + gathered[2]) + ...      (size, n) to (n,)"""
    total[...] = gathered[0]
    for other in gathered[1:]:
        total += other
