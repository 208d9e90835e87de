"""Ranks on the CPUs of one machine: sums through memory that they share, in the order of the ranks."""

from multiprocessing.context import BaseContext

import numpy as np

from minitransformer.distributed.communicator import Communicator, add_in_order

CHUNK_BYTES = 1 << 20
"""Bytes of an array that are summed at a time, so that no length need be known when the memory is made."""
SMALL = 1 << 16
"""Bytes up to which each rank adds up the whole: a second meeting would take longer."""


class SharedMemory:
    """What ``size`` ranks share: made by the process that starts them, and passed on as an argument.

    The arrays have no name in any folder, so they are gone with the last process, in whatever way that ends. The
    semaphores have names. The process that starts the ranks deletes these when it ends, and Python's resource tracker
    does if it is killed. If both are killed at once, 32 bytes for each rank remain in /dev/shm.
    """

    def __init__(self, size: int, context: BaseContext):
        self.size = size
        self.numbers, self.busy = context.RawArray("q", size), context.RawArray("q", size)
        self.arrivals = [context.Semaphore(0) for _ in range(size)]
        self.buffers = context.RawArray("b", 2 * size * CHUNK_BYTES)


class LocalCommunicator(Communicator):
    """Each rank copies its array to the shared memory, adds up a slice of all arrays, and reads the slices of all.

    Chunks alternate between two buffers: before a rank writes the next but one, it has met all others after they had
    read this one.
    """

    def __init__(self, rank: int, shared: SharedMemory):
        super().__init__(rank, shared.size, shared)
        self._buffers = np.frombuffer(shared.buffers, np.uint8).reshape(2, shared.size, CHUNK_BYTES)
        self._own = shared.arrivals[rank]
        self._others = [arrival for other, arrival in enumerate(shared.arrivals) if other != rank]
        self._turn = 0

    def all_reduce_sum(self, array: np.ndarray) -> None:
        with self.waiting():
            flat, step = array.reshape(-1), CHUNK_BYTES // array.itemsize
            for start in range(0, flat.size, step):
                self._sum(flat[start : start + step])

    def _sum(self, part: np.ndarray) -> None:
        self._turn = 1 - self._turn
        gathered = self._buffers[self._turn].view(part.dtype)[:, : part.size]  # (size, n)
        gathered[self.rank] = part
        self._meet()
        if part.nbytes <= SMALL:
            add_in_order(gathered, part)
            return
        first, end = (rank * part.size // self.size for rank in (self.rank, self.rank + 1))
        add_in_order(gathered[:, first:end], gathered[0, first:end])
        self._meet()
        part[...] = gathered[0]

    def _meet(self) -> None:
        """Return when all ranks have come: each tells all others."""
        for other in self._others:
            other.release()
        for _ in self._others:
            self._own.acquire()
