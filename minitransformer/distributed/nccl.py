"""Ranks with a GPU each: sums of device arrays by NCCL, on the stream that is current."""

import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.backend import Array
from minitransformer.distributed.communicator import Communicator
from minitransformer.errors import BackendError, ConfigError, MissingPackageError, ShapeError, install_hint, quote
from minitransformer.files import write_text


class NcclCommunicator(Communicator):
    """NCCL's collectives on CuPy arrays, in an order of its own; host arrays, such as the losses, are copied to the
    device and back.

    cupy, nccl: the modules ``cupy`` and ``cupy.cuda.nccl``, or stand-ins for both

    Raises:
        MissingPackageError: NCCL is not installed.
    """

    def __init__(self, rank: int, size: int, board: Any = None, *, cupy: Any = None, nccl: Any = None):
        super().__init__(rank, size, board)
        told: list = []
        if cupy is None:
            import cupy

            with warnings.catch_warnings(record=True) as told:  # in many lines, why NCCL cannot be loaded
                warnings.simplefilter("always")
                from cupy.cuda import nccl  # ``import cupy`` leaves this module out
        if not nccl.available:
            reasons = re.findall(r"Reason: (.*)", "\n".join(str(each.message) for each in told))
            raise MissingPackageError(
                f"ranks: NCCL must be installed for several GPUs, got {', '.join(reasons) or 'none'}; "
                f"{install_hint('cuda13')} (or cuda12, as CuPy)"
            )
        self._cupy, self._nccl = cupy, nccl
        self._communicator: Any = None

    def make_id(self) -> str:
        """The text by which all ranks find each other; one of them makes it."""
        return self._nccl.get_unique_id().hex()  # 128 bytes

    def join(self, unique_id: str) -> None:
        """Called by all ranks, before the first sum; returns when all have come.

        Raises:
            BackendError: NCCL cannot connect them; the message says what to look at.
        """
        with self.waiting(), self._explaining():
            self._communicator = self._nccl.NcclCommunicator(self.size, bytes.fromhex(unique_id), self.rank)

    def all_reduce_sum(self, array: Array) -> None:
        """The first sum may raise what `join` does: NCCL connects the GPUs when they first need each other."""
        on_host = isinstance(array, np.ndarray)
        device = self._cupy.asarray(array) if on_host else array
        kind, pointer, stream = self._kind_of(device), device.data.ptr, self._cupy.cuda.get_current_stream()
        stream.synchronize()  # this rank's own work does not count as waiting for the others
        with self.waiting(), self._explaining():
            self._communicator.allReduce(pointer, pointer, device.size, kind, self._nccl.NCCL_SUM, stream.ptr)
            stream.synchronize()
        if on_host:
            array[...] = device.get()

    def close(self) -> None:
        self._communicator.destroy()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (self._nccl.NcclError, KeyError) as error:  # CuPy has no text for a status of 7 or above
            got = f"status {error}" if isinstance(error, KeyError) else error
            raise BackendError(f"ranks: NCCL must connect the GPUs, got {got}; {self._remedy(error)}") from error

    def _remedy(self, error: Exception) -> str:
        kind, runtime = str(error).partition(":")[0], self._cupy.cuda.runtime
        if kind == "NCCL_ERROR_INVALID_USAGE":
            return (
                "each rank needs a GPU of its own: start no more ranks on a machine than it has GPUs, "
                f"here {runtime.getDeviceCount()}"
            )
        if kind == "NCCL_ERROR_UNHANDLED_CUDA_ERROR":
            return (
                "NCCL must be that for CuPy's CUDA, nvidia-nccl-cu"
                f"{runtime.runtimeGetVersion() // 1000}, the driver no older, and the GPU's memory not full: see "
                "minitransformer doctor and nvidia-smi"
            )
        return "machines must reach each other: NCCL_SOCKET_IFNAME names the network, NCCL_DEBUG=INFO tells more"

    def _kind_of(self, array: Array) -> int:
        if not array.flags.c_contiguous:
            raise ShapeError(f"all_reduce_sum: the array must be contiguous, got strides {array.strides}")
        try:
            return getattr(self._nccl, f"NCCL_{array.dtype.name.upper()}")
        except AttributeError:
            raise ShapeError(f"all_reduce_sum: the dtype must be one that NCCL adds, got {array.dtype}") from None


def pass_id_by_file(path: Path, job: str, make_id: Callable[[], str] | None, timeout: float) -> str:
    """The id that rank 0 makes and writes to ``path``, which all ranks see; the others wait until it is there.

    job: what distinguishes this start of the job from any other, so that no rank takes an id that was left behind
    make_id: given on rank 0; None on the others

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
            found = f"that of job {quote(entry['job'])}"
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError):
            found = "another file"
        time.sleep(0.1)
    raise ConfigError(
        f"{path} must hold the NCCL id of job {quote(job)} within {timeout:g} s (training.timeout), got {found}; "
        "start all ranks of a job with the same --job, rank 0 too, and a training.directory that all machines see"
    )
