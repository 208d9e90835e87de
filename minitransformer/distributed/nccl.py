"""Ranks with a GPU each: sums of device arrays by NCCL, on a stream of their own, while other kernels run.

The order of the calls is tested with a recording stand-in for CuPy.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.backend import Array
from minitransformer.distributed.communicator import Communicator, add_in_order
from minitransformer.errors import ConfigError, MissingPackageError, ShapeError, install_hint, quoted
from minitransformer.files import write_text


class NcclCommunicator(Communicator):
    """NCCL's collectives on CuPy arrays; host arrays, such as the losses, are copied to the device and back.

    A sum waits on the device until what was queued before it has written its array; ``finish`` makes what is queued
    after it wait for all sums. The host waits for neither.

    deterministic: add in the order of the ranks, whatever NCCL's own order; each rank then receives all arrays
    cupy, nccl: the modules ``cupy`` and ``cupy.cuda.nccl``, or stand-ins for both

    Raises:
        MissingPackageError: NCCL is not installed.
    """

    overlaps = True  # its gain has not been measured

    def __init__(
        self,
        rank: int,
        size: int,
        board: Any = None,
        *,
        deterministic: bool = False,
        cupy: Any = None,
        nccl: Any = None,
    ):
        super().__init__(rank, size, board)
        if cupy is None:
            import cupy
            from cupy.cuda import nccl  # ``import cupy`` leaves this module out
        if not nccl.available:
            raise MissingPackageError(
                f"ranks: NCCL must be installed for several GPUs, got none; {install_hint('cuda13')} (or cuda12)"
            )
        self._deterministic, self._cupy, self._nccl = deterministic, cupy, nccl
        self._communicator: Any = None
        self._queued: deque[tuple[Any, Any]] = deque()  # events of each sum: it may begin, it has ended
        self._ended = 0  # sums that were seen to end

    def make_id(self) -> str:
        """The text by which all ranks find each other; one of them makes it."""
        return self._nccl.get_unique_id().hex()  # 128 bytes

    def join(self, unique_id: str) -> None:
        """Called by all ranks, before the first sum; returns when all have come."""
        with self.waiting():
            self._communicator = self._nccl.NcclCommunicator(self.size, bytes.fromhex(unique_id), self.rank)
        self._device, self._stream = self._cupy.cuda.Device(), self._cupy.cuda.Stream(non_blocking=True)

    def start_all_reduce_sum(self, array: Array) -> None:
        kind, pointer = self._kind_of(array), array.data.ptr
        self._count()
        with self._queueing():
            if not self._deterministic:
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
            array[...] = device.get()  # here the host waits for the other ranks

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

    def _awaited_sum(self) -> int:
        """As seen by the device: the host continues as soon as a collective is queued."""
        if self._communicator is None:
            return super()._awaited_sum()
        with self._device:
            while self._queued and self._queued[0][1].done:
                self._queued.popleft()
                self._ended += 1
            return self._ended + 1 if self._queued and self._queued[0][0].done else 0

    def _kind_of(self, array: Array) -> int:
        if not array.flags.c_contiguous:
            raise ShapeError(f"all_reduce_sum: the array must be contiguous, got strides {array.strides}")
        try:
            return getattr(self._nccl, f"NCCL_{array.dtype.name.upper()}")
        except AttributeError:
            raise ShapeError(f"all_reduce_sum: the dtype must be one that NCCL adds, got {array.dtype}") from None


def pass_id_by_file(path: Path, job: str, make_id: Callable[[], str] | None, timeout: float) -> str:
    """The id that rank 0 makes and writes to ``path``, which all ranks see; the others wait until it is there.

    job: what tells this start of the job from any other, so that no rank takes an id that was left behind
    make_id: of rank 0; None: of the others

    Raises:
        ConfigError: the file of this job does not come within ``timeout`` seconds.
    """
    if make_id is not None:
        unique_id = make_id()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps({"job": job, "id": unique_id}))
        return unique_id
    until, found = time.monotonic() + timeout, "no such file"
    while time.monotonic() < until:
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            if entry["job"] == job:
                return entry["id"]
            found = f"that of job {quoted(entry['job'])}"
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError):
            found = "another file"
        time.sleep(0.1)
    raise ConfigError(
        f"{path} must hold the NCCL id of job {quoted(job)} within {timeout:g} s (training.timeout), got {found}; "
        "start all ranks of a job with the same --job, rank 0 too, and a training.directory that all machines see"
    )


def use_gpu(number: int) -> None:
    """Let CuPy work on GPU ``number``, modulo how many this machine has. Without a GPU nothing happens."""
    try:
        import cupy

        cupy.cuda.Device(number % cupy.cuda.runtime.getDeviceCount()).use()
    except (ImportError, RuntimeError, ZeroDivisionError):
        pass  # whatever asks for the device reports what is missing
