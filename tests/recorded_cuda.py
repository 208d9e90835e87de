"""A stand-in for CuPy and NCCL that computes on the host: ranks are threads, and the sums are really computed.

Collectives whose kind, length or type differ between ranks raise Mismatch; one that is queued on another stream than
the current one fails.
"""

import threading
from types import SimpleNamespace

import numpy as np

KINDS = {"float16": 6, "bfloat16": 9, "float32": 7, "float64": 8, "int64": 4}
"""NCCL's numbers for types."""
ERRORS = {
    1: "UNHANDLED_CUDA_ERROR: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    2: "SYSTEM_ERROR: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    3: "INTERNAL_ERROR: internal error - please report this issue to the NCCL developers",
    4: "INVALID_ARGUMENT: invalid argument (run with NCCL_DEBUG=WARN for details)",
    5: "INVALID_USAGE: invalid usage (run with NCCL_DEBUG=WARN for details)",
    6: "REMOTE_ERROR: remote process exited or there was a network error",
}
"""CuPy knows no others, and raises a KeyError for them."""


class NcclError(RuntimeError):
    """As CuPy words it."""

    def __init__(self, status: int):
        self.status = status
        super().__init__(f"NCCL_ERROR_{ERRORS[status]}")


class Mismatch(AssertionError):
    """The ranks call different collectives."""


class World:
    """What the ranks of one communicator share.

    unique_id: what NCCL gives for it: 128 bytes, also of values that no text encoding has
    """

    def __init__(self, size: int, unique_id: bytes = bytes(range(128, 256))):
        self.size, self.unique_id = size, unique_id
        self.barrier = threading.Barrier(size, timeout=20)
        self.calls: list = [None] * size
        self.log: list[tuple] = []  # of rank 0: the collectives, in order

    def meet(self, rank: int, call: tuple, array: np.ndarray) -> list[np.ndarray]:
        """The arrays of all ranks, once all have come with the same call."""
        self.calls[rank] = (call, array.copy())
        self.barrier.wait()
        calls = [call for call, _ in self.calls]
        arrays = [array for _, array in self.calls]
        self.barrier.wait()
        if any(each != calls[0] for each in calls):
            raise Mismatch(str(calls))
        if rank == 0:
            self.log.append(call)
        return arrays


class Cuda:
    """The part of the module ``cupy`` that the communicator uses, for the GPU of one rank.

    Attributes:
        cuda: the module ``cupy.cuda`` as ``import cupy`` leaves it: without ``nccl``.
        nccl: the module ``cupy.cuda.nccl``, which must be imported by its own name.
    """

    def __init__(self, world: World, rank: int):
        self.world, self.rank = world, rank
        self.current = [Stream(self)]
        self._memory: dict[int, np.ndarray] = {}
        self.nccl = SimpleNamespace(
            available=True,
            NCCL_SUM=0,
            NcclError=NcclError,
            get_unique_id=lambda: world.unique_id,
            NcclCommunicator=lambda ndev, commId, rank: Collectives(self, ndev, commId, rank),  # noqa: N803
            **{f"NCCL_{name.upper()}": number for name, number in KINDS.items()},
        )
        self.cuda = SimpleNamespace(
            Stream=lambda: Stream(self),
            get_current_stream=lambda: self.current[-1],
            runtime=SimpleNamespace(getDeviceCount=lambda: 1, runtimeGetVersion=lambda: 13020),
        )

    def asarray(self, a: np.ndarray) -> "DeviceArray":
        made = self.empty(a.shape, a.dtype)
        made.host[...] = a
        return made

    def empty(self, shape, dtype) -> "DeviceArray":
        host = np.full(shape, 99, dtype)
        self._memory[_address(host)] = host  # kept: an address is never given twice
        return DeviceArray(host)

    def host_at(self, pointer: int, count: int) -> np.ndarray:
        """The ``count`` elements at ``pointer``."""
        return self._memory[pointer].reshape(-1)[:count]


class Stream:
    def __init__(self, cuda: Cuda):
        self._cuda, self.ptr = cuda, id(self)

    def __enter__(self) -> None:
        self._cuda.current.append(self)

    def __exit__(self, *exception) -> None:
        self._cuda.current.pop()

    def synchronize(self) -> None:
        """The stand-in computes at once."""


class Collectives:
    """A communicator: the sums are really computed."""

    def __init__(self, cuda: Cuda, size: int, unique_id: bytes, rank: int):
        assert type(unique_id) is bytes  # as CuPy's own, which takes nothing else
        assert (size, rank, unique_id) == (cuda.world.size, cuda.rank, cuda.world.unique_id)
        self._cuda, self._world, self._rank = cuda, cuda.world, rank

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):  # noqa: N802 - CuPy's name
        assert all(type(each) is int for each in (sendbuf, recvbuf, count, datatype, op, stream))
        assert sendbuf == recvbuf and stream == self._cuda.current[-1].ptr
        host = self._cuda.host_at(sendbuf, count)
        assert KINDS[host.dtype.name] == datatype
        host[...] = sum(self._world.meet(self._rank, ("allReduce", count, datatype, op), host))

    def destroy(self):
        pass


class DeviceArray:
    """An array of the stand-in."""

    def __init__(self, host: np.ndarray):
        self.host = host
        self.size, self.dtype, self.flags, self.strides = host.size, host.dtype, host.flags, host.strides
        self.data = SimpleNamespace(ptr=_address(host))

    def get(self) -> np.ndarray:
        return self.host.copy()

    def __getitem__(self, index) -> "DeviceArray":
        return DeviceArray(self.host[index])


def _address(host: np.ndarray) -> int:
    return host.__array_interface__["data"][0]
