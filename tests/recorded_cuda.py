"""A stand-in for CuPy and NCCL that computes on the host: ranks are threads, and the sums are really computed.

Collectives whose kind, length or type differ between ranks raise Mismatch; one that is queued on another stream than
the current one fails.
"""

import threading
from types import SimpleNamespace

import numpy as np


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
        names = ("float16", "bfloat16", "float32", "float64", "int64")
        kinds = {f"NCCL_{name.upper()}": name for name in names}
        self.nccl = SimpleNamespace(
            available=True,
            NCCL_SUM="sum",
            get_unique_id=lambda: world.unique_id,
            NcclCommunicator=lambda size, unique_id, rank: Collectives(self, size, unique_id, rank),
            **kinds,
        )
        self.cuda = SimpleNamespace(
            Stream=lambda: Stream(self),
            get_current_stream=lambda: self.current[-1],
        )

    def asarray(self, array: np.ndarray) -> "DeviceArray":
        made = self.empty(array.shape, array.dtype)
        made.host[...] = array
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
        self._cuda, self.ptr = cuda, self

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

    def allReduce(self, source, target, count, kind, operation, stream):  # noqa: N802 - CuPy's name
        assert source == target and stream is self._cuda.current[-1]
        host = self._cuda.host_at(source, count)
        assert host.dtype == kind
        host[...] = sum(self._world.meet(self._rank, ("allReduce", count, kind, operation), host))

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
