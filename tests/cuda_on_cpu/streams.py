"""Streams that can be captured, and memory pools, as CuPy's: an operation is done at once, or by a graph later.

Memory goes back to its pool when the last array in it is gone, and is given out again.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

ALIGNMENT = 512
_allocated: list[np.ndarray] = []  # for ever, so that an address never becomes invalid


class MemoryPool:
    """Blocks by size; the block that was given back last is given out first."""

    current: "MemoryPool"

    def __init__(self):
        self._free: dict[int, list[np.ndarray]] = defaultdict(list)

    def malloc(self) -> None: ...

    def block(self, size: int) -> np.ndarray:
        if not self._free[size]:
            memory = np.empty(size + ALIGNMENT, np.uint8)
            _allocated.append(memory)
            start = -memory.ctypes.data % ALIGNMENT
            self._free[size].append(memory[start : start + size])
        block = self._free[size].pop()
        owner = block.view(Owner)
        weakref.finalize(owner, self._give_back, block)
        return owner

    def _give_back(self, block: np.ndarray) -> None:
        block.fill(255)  # whoever reads it from now on has made a mistake
        self._free[block.nbytes].append(block)


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
