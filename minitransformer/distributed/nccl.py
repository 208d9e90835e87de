"""Ranks with a GPU each: sums of device arrays by NCCL, on a stream of their own, while other kernels run.

The order of the calls is tested with a recording stand-in for CuPy.
"""

import base64
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitransformer.backend import Array
from minitransformer.distributed.communicator import Communicator, Store, add_in_order
from minitransformer.errors import MissingPackageError, ShapeError, install_hint


class NcclCommunicator(Communicator):
    """NCCL's collectives on CuPy arrays; host arrays, such as the losses, are copied to the device and back.

    A sum waits on the device until what was queued before it has written its array; ``finish`` makes what is queued
    after it wait for all sums. The host waits for neither.

    cupy, nccl: the modules ``cupy`` and ``cupy.cuda.nccl``, or stand-ins for both

    Raises:
        MissingPackageError: NCCL is not installed.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        store: Store,
        *,
        deterministic: bool = False,
        cupy: Any = None,
        nccl: Any = None,
    ):
        self._communicator: Any = None
        self._queued: deque[tuple[Any, Any]] = deque()  # events of each collective: it may begin, it has ended
        self._ended, self._since = 0, 0.0  # collectives that have ended, and when that was last seen to change
        self._counting = threading.Lock()  # ``progress`` is called by two threads, one for heartbeats
        self._device: Any = None
        super().__init__(rank, size, store, deterministic=deterministic)
        if cupy is None:
            import cupy
            from cupy.cuda import nccl  # ``import cupy`` leaves this module out
        if not nccl.available:
            raise MissingPackageError(
                f"ranks: NCCL must be installed for several GPUs, got none; {install_hint('cuda13')} (or cuda12)"
            )
        if self.rank == 0:
            store.put("nccl", base64.b64encode(nccl.get_unique_id()).decode())  # 128 bytes
        self._cupy, self._nccl = cupy, nccl
        with self.waiting():
            unique_id = base64.b64decode(store.get("nccl"))
            self._communicator = nccl.NcclCommunicator(self.size, unique_id, self.rank)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._device = cupy.cuda.Device()

    def start_all_reduce_sum(self, array: Array) -> None:
        kind, pointer = self._kind_of(array), array.data.ptr
        with self._queueing():
            if not self.deterministic:
                self._communicator.allReduce(pointer, pointer, array.size, kind, self._nccl.NCCL_SUM, self._stream.ptr)
                return
            with self._stream:  # CuPy keeps the memory of each stream apart, so ``gathered`` outlives its use there
                gathered = self._cupy.empty((self.size, array.size), array.dtype)
                self._communicator.allGather(pointer, gathered.data.ptr, array.size, kind, self._stream.ptr)
                add_in_order(gathered, array.reshape(-1))

    def finish(self) -> None:
        self._cupy.cuda.get_current_stream().wait_event(self._event(self._stream))

    def all_reduce_sum(self, array: Array) -> None:
        on_host = isinstance(array, np.ndarray)
        device = self._cupy.asarray(array) if on_host else array
        self.start_all_reduce_sum(device)
        self.finish()
        if on_host:
            with self.waiting():  # here the host waits for the other ranks
                array[...] = device.get()

    def abort(self) -> None:
        if self._communicator is not None:
            self._communicator.abort()

    def close(self) -> None:
        self._stream.synchronize()
        self._communicator.destroy()

    @contextmanager
    def _queueing(self) -> Iterator[None]:
        """Around a collective: on our stream it waits for all that has been queued on the caller's."""
        ready = self._event(self._cupy.cuda.get_current_stream())
        self._stream.wait_event(ready)
        yield
        self._queued.append((ready, self._event(self._stream)))

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def progress(self) -> tuple[int, float | None]:
        """As seen by the device: the host continues as soon as a collective is queued."""
        number, waits = super().progress()
        if self._device is None:
            return number, waits
        with self._counting, self._device:
            now = time.monotonic()
            while self._queued and self._queued[0][1].done:
                self._queued.popleft()
                self._ended, self._since = self._ended + 1, now
            if not self._queued or not self._queued[0][0].done:
                self._since = now
                return number + self._ended, waits
            return number + self._ended + 1, max(waits or 0.0, now - self._since)

    def _kind_of(self, array: Array) -> int:
        if not array.flags.c_contiguous:
            raise ShapeError(f"all_reduce_sum: the array must be contiguous, got strides {array.strides}")
        try:
            return getattr(self._nccl, f"NCCL_{array.dtype.name.upper()}")
        except AttributeError:
            raise ShapeError(f"all_reduce_sum: the dtype must be one that NCCL adds, got {array.dtype}") from None


def use_gpu(number: int) -> None:
    """Let CuPy work on GPU ``number``, modulo how many this machine has. Without a GPU nothing happens."""
    try:
        import cupy

        cupy.cuda.Device(number % cupy.cuda.runtime.getDeviceCount()).use()
    except (ImportError, RuntimeError, ZeroDivisionError):
        pass  # whatever asks for the device reports what is missing
