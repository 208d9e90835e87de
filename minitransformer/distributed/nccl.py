"""Ranks with a GPU each: sums of device arrays by NCCL, on a stream of their own, while other kernels go on.

Not run on a GPU yet: the order of the calls is tested with a recording stand-in for CuPy.
"""

from __future__ import annotations

import base64
from types import ModuleType
from typing import Any

import numpy as np

from minitransformer.backend import Array
from minitransformer.distributed.communicator import Communicator, add_in_order
from minitransformer.distributed.member import Member
from minitransformer.errors import MissingPackageError, ShapeError, install_hint


class Nccl(Communicator):
    """NCCL's collectives on CuPy arrays; host arrays, such as the losses, take the way over the device.

    A sum waits on the device until what was queued before it has written its array; ``finish`` makes what is queued
    after it wait for all sums. The host waits for neither.

    Raises:
        MissingPackageError: NCCL is not installed.
    """

    def __init__(self, member: Member, fixed: bool = False, cupy: ModuleType | Any = None):
        super().__init__(member.rank, member.size, member, fixed)
        if cupy is None:
            import cupy
        try:
            from_cupy = cupy.cuda.nccl
            if self.rank == 0:
                member.put("nccl", base64.b64encode(np.array(from_cupy.get_unique_id(), np.int8)).decode())
        except (ImportError, AttributeError) as error:
            raise MissingPackageError(
                f"ranks: NCCL must be installed for several GPUs, got none; {install_hint('cuda13')} (or cuda12)"
            ) from error
        self._cupy, self._nccl = cupy, from_cupy
        with self.waiting():
            unique_id = tuple(np.frombuffer(base64.b64decode(member.get("nccl")), np.int8).tolist())
            self._communicator = from_cupy.NcclCommunicator(self.size, unique_id, self.rank)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._stop, member.stop = member.stop, self.abort

    def start_all_reduce_sum(self, array: Array) -> None:
        kind = self._kind_of(array)
        self._follow_the_others()
        pointer = array.data.ptr
        if not self.fixed:
            self._communicator.allReduce(pointer, pointer, array.size, kind, self._nccl.NCCL_SUM, self._stream.ptr)
            return
        with self._stream:  # CuPy keeps the memory of each stream apart, so ``gathered`` outlives its use there
            gathered = self._cupy.empty((self.size, array.size), array.dtype)
            self._communicator.allGather(pointer, gathered.data.ptr, array.size, kind, self._stream.ptr)
            add_in_order(gathered, array.reshape(-1))

    def finish(self) -> None:
        done = self._cupy.cuda.Event(disable_timing=True)
        done.record(self._stream)
        self._cupy.cuda.get_current_stream().wait_event(done)

    def all_reduce_sum(self, array: Array) -> None:
        if isinstance(array, np.ndarray):
            device = self._cupy.asarray(array)
            self.all_reduce_sum(device)
            self._fetch(device, array)
            return
        self.start_all_reduce_sum(array)
        self.finish()

    def broadcast(self, array: Array, root: int = 0) -> None:
        if isinstance(array, np.ndarray):
            device = self._cupy.asarray(array)
            self.broadcast(device, root)
            self._fetch(device, array)
            return
        self._follow_the_others()
        self._communicator.bcast(array.data.ptr, array.size, self._kind_of(array), root, self._stream.ptr)
        self.finish()

    def barrier(self) -> None:
        self.all_reduce_sum(np.zeros(1))

    def abort(self, code: int = 2) -> None:
        self._communicator.abort()  # frees a host thread that waits for the device
        self._stop(code)

    def close(self) -> None:
        self._stream.synchronize()
        self._communicator.destroy()

    def _follow_the_others(self) -> None:
        """What comes next on our stream waits for all that has been queued on the caller's."""
        ready = self._cupy.cuda.Event(disable_timing=True)
        ready.record(self._cupy.cuda.get_current_stream())
        self._stream.wait_event(ready)

    def _fetch(self, device: Array, array: np.ndarray) -> None:
        with self.waiting():  # here the host waits for the other ranks
            array[...] = device.get()

    def _kind_of(self, array: Array) -> int:
        if not array.flags.c_contiguous:
            raise ShapeError(f"all_reduce_sum: the array must be contiguous, got strides {array.strides}")
        try:
            return getattr(self._nccl, f"NCCL_{array.dtype.name.upper()}")
        except AttributeError:
            raise ShapeError(f"all_reduce_sum: the dtype must be one that NCCL adds, got {array.dtype}") from None


def use_gpu(number: int) -> None:
    """Make GPU ``number`` of this machine, counted round, the one that CuPy works on. Without one nothing happens."""
    try:
        import cupy

        cupy.cuda.Device(number % cupy.cuda.runtime.getDeviceCount()).use()
    except (ImportError, RuntimeError, ZeroDivisionError):
        pass  # what is missing is told by who asks for the device
