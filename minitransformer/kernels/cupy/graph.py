"""CUDA graphs: what a function starts on the device, captured once and launched again as a whole.

The host then needs microseconds for work of which each kernel alone takes it five to twenty  [CUDA C++ Programming
Guide, "CUDA Graphs"]. A graph finds its inputs and leaves its outputs where they were when it was captured.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")


class GraphMemory:
    """A stream and a memory pool of their own, for functions that will be captured, and for their graphs.

    While a function runs here, the arrays that it makes come from the pool. Graphs of one pool share memory: each may
    overwrite what the others have left, so they must be launched one after another, and results be copied before the
    next.

    cuda: the module ``cupy.cuda``
    """

    def __init__(self, cuda: ModuleType):
        self._cuda = cuda
        self._stream, self._pool = cuda.Stream(non_blocking=True), cuda.MemoryPool()

    def run(self, function: Callable[[], Result]) -> Result:
        """Call it here; on the device it comes after what was started before, and before what is started later."""
        current = self._cuda.get_current_stream()
        self._stream.wait_event(current.record())
        with self._in_use():
            result = function()
            done = self._stream.record()
        current.wait_event(done)
        return result

    def captured(self, function: Callable[[], Result]) -> tuple[Any, Result]:
        """(graph, what the function returned), whose arrays have values after ``graph.launch()``.

        The function must have run here before, so that its kernels are compiled; nothing that it does may wait for the
        device or copy from the host.
        """
        with self._in_use():
            self._stream.begin_capture()
            try:
                result = function()
            except BaseException:
                with suppress(Exception):  # the capture is not valid any more; what went wrong was said first
                    self._stream.end_capture()
                raise
            return self._stream.end_capture(), result

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._stream, self._cuda.using_allocator(self._pool.malloc):
            yield
