"""CUDA graphs: what a function starts on the device, captured once and launched again as a whole.

The host then needs microseconds for work of which each kernel alone takes it five to twenty  [CUDA C++ Programming
Guide, "CUDA Graphs"]. A graph finds its inputs and leaves its outputs where they were when it was captured.
"""

from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")


class GraphPool:
    """The stream on which functions are captured, and the memory of their graphs.

    All graphs share the memory: each may overwrite what the others have left there, so they must be launched one after
    another, and results be copied before the next. Memory that is free in the pool still belongs to graphs: nothing
    else may be allocated from it, and none is given back.
    """

    def __init__(self, cupy: ModuleType):
        self._cupy, cuda = cupy, cupy.cuda
        self._stream, self._pool = cuda.Stream(non_blocking=True), cuda.MemoryPool(self._new_memory)
        self._pool.set_limit(size=0)  # none: at its limit a pool gives back what is free

    def warm_up(self, function: Callable[[], Result]) -> Result:
        """Call it on the stream: before a capture kernels must be compiled, and handles and caches made.

        On the device it comes after what was started before, and before what is started later.
        """
        current = self._cupy.cuda.get_current_stream()
        self._stream.wait_event(current.record())
        with self._stream:
            result = function()
            done = self._stream.record()
        current.wait_event(done)
        return result

    def capture(self, function: Callable[[], Result]) -> tuple[Any, Result]:
        """(graph, what the function returned), whose arrays have values after ``graph.launch()``.

        Nothing that the function does may wait for the device or copy from the host, and nothing that it makes may be
        used by others than this graph.
        """
        self._cupy.get_default_memory_pool().free_all_blocks()  # what the warm-up has left
        with self._stream, self._cupy.cuda.using_allocator(self._pool.malloc):
            self._stream.begin_capture()
            try:
                result = function()
            except BaseException:
                with suppress(Exception):  # the capture is not valid any more; what went wrong was said first
                    self._stream.end_capture()
                raise
            return self._stream.end_capture(), result

    def _new_memory(self, size: int) -> Any:
        """Memory of the driver for the pool; if there is none left, that which the default pool does not use.

        Raises:
            OutOfMemoryError: CuPy's; for the driver's own error a pool would give back what is free in it.
        """
        cuda = self._cupy.cuda
        for _ in range(2):
            with suppress(cuda.runtime.CUDARuntimeError):
                return cuda.MemoryPointer(cuda.Memory(size), 0)
            self._cupy.get_default_memory_pool().free_all_blocks()
        raise cuda.memory.OutOfMemoryError(size, self._pool.total_bytes())
