"""What ranks do together, on arrays: the interface of all communicators."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import numpy as np

from minitransformer.backend import Array
from minitransformer.distributed.timeouts import TIMEOUTS


class Store(Protocol):
    """A key-value store that all ranks share; in a job, the connection to its supervisor."""

    def put(self, key: str, value: str) -> None:
        """Set ``key`` to ``value``, once."""

    def get(self, key: str) -> str:
        """Wait until some rank has set ``key``, and return its value."""

    def listen(self, key: str, callback: Callable[[], object]) -> None:
        """Call ``callback``, in another thread, as soon as some rank has set ``key``."""

    def busy(self) -> AbstractContextManager:
        """Around work for which the others may have to wait long: their timeout does not run."""

    def follow(self, communicator: "Communicator") -> None:
        """From now on watch its ``progress``, from another thread, and ``abort`` it if the job ends."""


class Communicator(ABC):
    """``size`` processes, this is number ``rank`` (from 0). All call the same methods in the same order.

    Arrays are contiguous: float32, float64 or int64 (NCCL: bfloat16 and float16 too); after every call all ranks hold
    the same bits. Communicators see arrays, never a model, and know nothing of what started or watches the processes.

    store: for what the ranks exchange besides arrays; None for a process alone
    deterministic: sums are taken in the order of the ranks, and so have the same bits in every run and communicator
    """

    def __init__(self, rank: int = 0, size: int = 1, store: Store | None = None, *, deterministic: bool = False):
        self.rank, self.size, self.store, self.deterministic = rank, size, store, deterministic
        self._number, self._entered = 0, None
        if store is not None:
            store.follow(self)

    @abstractmethod
    def all_reduce_sum(self, array: Array) -> None:
        """array = sum of the ranks' arrays, in place"""

    def barrier(self) -> None:
        """Return when all ranks have called this."""
        self.all_reduce_sum(np.zeros(1))

    def start_all_reduce_sum(self, array: Array) -> None:
        """Begin ``all_reduce_sum``; nobody may touch ``array`` until ``finish``. It may be done when this returns."""
        self.all_reduce_sum(array)

    def finish(self) -> None:  # noqa: B027 - not all need it
        """Return when all sums that were started may be read (on a GPU: by what is queued after this call)."""

    def abort(self) -> None:  # noqa: B027 - not all need it
        """Free threads that wait in a collective, as this process is about to end; called from any thread."""

    def close(self) -> None:  # noqa: B027 - not all need it
        """Release what the communicator holds; called once, by all ranks, after the last collective."""

    def gather_text(self, key: str, text: str) -> list[str]:
        """The texts of all ranks, in their order; a collective. ``key`` is used once."""
        if self.store is None:
            return [text]
        with self.waiting():
            self.store.put(f"{key}/{self.rank}", text)
            return [self.store.get(f"{key}/{rank}") for rank in range(self.size)]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a collective: if it lasts longer than ``training.timeout``, the job is ended."""
        self._number += 1
        self._entered = time.monotonic()
        try:
            yield
        except (OSError, RuntimeError):  # most likely another rank has gone
            if self.store is not None:
                time.sleep(TIMEOUTS.report_delay)  # the supervisor knows which, and ends this process
            raise
        finally:
            self._entered = None

    def progress(self) -> tuple[int, float | None]:
        """How many collectives this rank has reached, and for how many seconds it waits in the last one, if it does."""
        entered = self._entered
        return self._number, None if entered is None else time.monotonic() - entered

    def busy(self) -> AbstractContextManager:
        """Around work for which the others may have to wait long, such as validation: no timeout runs."""
        return nullcontext() if self.store is None else self.store.busy()


def add_in_order(gathered: Array, array: Array) -> None:
    """array = ((gathered[0] + gathered[1]) + gathered[2]) + ...      (size, n) to (n,)"""
    array[...] = gathered[0]
    for other in gathered[1:]:
        array += other
