"""Streams that can be captured, and memory pools, as CuPy's: an operation is done at once, or by a graph later.

Memory goes back to its pool when the last array in it is gone, and is given out again.
"""

import weakref
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

ALIGNMENT = 512
_allocated: list[np.ndarray] = []  # for ever, so that an address never becomes invalid


class MemoryPool:
    """Gives out the smallest free block that is large enough, cut to size.

    allocator: asked for memory that is new to the pool, as by CuPy's pools
    """

    current: "MemoryPool"

    def __init__(self, allocator: Callable[[int], object] = lambda size: None):
        self._allocator = allocator
        self._free: list[np.ndarray] = []

    def malloc(self) -> None: ...

    def set_limit(self, size: int) -> None: ...

    def total_bytes(self) -> int:
        return sum(block.nbytes for block in self._free)

    def free_all_blocks(self) -> None: ...

    def block(self, size: int) -> np.ndarray:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        found = min((i for i, free in enumerate(self._free) if free.nbytes >= size), default=-1, key=self._bytes_of)
        block = self._new(size) if found < 0 else self._free.pop(found)
        self._free.append(block[size:])
        owner = block[:size].view(Owner)
        weakref.finalize(owner, self._give_back, block[:size])
        return owner

    def _bytes_of(self, i: int) -> int:
        return self._free[i].nbytes

    def _new(self, size: int) -> np.ndarray:
        self._allocator(size)
        memory = np.empty(size + ALIGNMENT, np.uint8)
        _allocated.append(memory)
        return memory[-memory.ctypes.data % ALIGNMENT :][:size]

    def _give_back(self, block: np.ndarray) -> None:
        block.fill(255)  # whoever reads it from now on has made a mistake
        self._free.append(block)


class Owner(np.ndarray):
    """The memory of an array; a view of it keeps it from going back to its pool."""


class Stream:
    """Does operations at once, or keeps them for a graph."""

    current: "Stream"
    events = 0

    def __init__(self, non_blocking: bool = False):
        self.captured: list[Callable[[], None]] | None = None

    def do(self, operation: Callable[[], None]) -> None:
        if self.captured is None:
            operation()
        else:
            self.captured.append(operation)

    def begin_capture(self) -> None:
        self.captured = []

    def end_capture(self) -> SimpleNamespace:
        operations, self.captured = self.captured, None
        return SimpleNamespace(launch=lambda: [operation() for operation in operations])

    def record(self) -> object:
        Stream.events += 1
        return object()

    def wait_event(self, event: object) -> None:
        assert self.captured is None

    def __enter__(self) -> None:
        self._before, Stream.current = Stream.current, self

    def __exit__(self, *exception) -> None:
        Stream.current = self._before


class CaptureError(RuntimeError):
    """What a GPU does not allow in a capture."""


def refuse_in_capture(what: str) -> None:
    if Stream.current.captured is not None:
        raise CaptureError(f"{what} in a capture")


@contextmanager
def using_allocator(malloc):
    before, MemoryPool.current = MemoryPool.current, malloc.__self__
    try:
        yield
    finally:
        MemoryPool.current = before
