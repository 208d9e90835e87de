"""A stand-in for CuPy that computes on the host and proves the order: who may touch which memory, after which event.

Each stream counts its operations and knows, of every stream, up to which operation it has waited. An operation on
memory that another stream has written, with no event between the two, raises MissingEvent, as on a GPU it would read
whatever is there. Ranks are threads; collectives whose kind, length or type differ between ranks raise Mismatch.
"""

import itertools
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np


class MissingEvent(AssertionError):
    """Two streams touch the same memory and nothing says which comes first."""


class Mismatch(AssertionError):
    """The ranks call different collectives."""


class World:
    """What the ranks of one communicator share.

    meets: False: collectives are only queued, and computed never
    unique_id: what NCCL gives for it: 128 bytes, also of values that no text encoding has
    """

    def __init__(self, size: int, meets: bool = True, unique_id: bytes = bytes(range(128, 256))):
        self.size, self.meets, self.unique_id = size, meets, unique_id
        self.barrier = threading.Barrier(size, timeout=20)
        self.calls: list = [None] * size
        self.log: list[tuple] = []  # of rank 0: the collectives, in order
        self.aborted: list[int] = []

    def meet(self, rank: int, call: tuple, array: np.ndarray) -> list[np.ndarray]:
        """The arrays of all ranks, once all have come with the same call."""
        if not self.meets:
            return [array.copy()] * self.size
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
        events: all that were made, in their order.
    """

    def __init__(self, world: World, rank: int):
        self._world, self._rank = world, rank
        self._numbers = itertools.count()
        self._touched: list[tuple[int, int, bool, int, int]] = []  # start, stop, written, stream, operation
        self._null = Stream(self)
        self._current = [self._null]
        self._memory: dict[int, np.ndarray] = {}
        self.events: list[Event] = []
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
            Stream=lambda non_blocking: Stream(self),
            Event=lambda disable_timing: self._new_event(),
            Device=nullcontext,
            get_current_stream=lambda: self._current[-1],
        )

    def _new_event(self) -> "Event":
        self.events.append(Event())
        return self.events[-1]

    def asarray(self, array: np.ndarray) -> "DeviceArray":
        made = self.empty(array.shape, array.dtype)
        made[...] = array
        return made

    def empty(self, shape, dtype) -> "DeviceArray":
        host = np.full(shape, 99, dtype)
        self._memory[_address(host)] = host  # kept: an address is never given twice
        return DeviceArray(self, host)

    def touch(self, host: np.ndarray, written: bool, stream: "Stream | None" = None) -> None:
        """An operation on ``stream`` (the current one) reads, or writes, this memory."""
        stream = stream or self._current[-1]
        start, stop = _address(host), _address(host) + host.nbytes
        for other_start, other_stop, was_written, number, operation in self._touched:
            apart = other_stop <= start or stop <= other_start
            if not apart and (written or was_written) and stream.seen.get(number, 0) < operation:
                raise MissingEvent(f"stream {stream.number} touches what stream {number} does, without an event")
        stream.seen[stream.number] = stream.seen.get(stream.number, 0) + 1
        self._touched.append((start, stop, written, stream.number, stream.seen[stream.number]))

    def host_at(self, pointer: int, count: int) -> np.ndarray:
        """The ``count`` elements at ``pointer``."""
        for start, host in self._memory.items():
            if start <= pointer < start + host.nbytes:
                first = (pointer - start) // host.itemsize
                return host.reshape(-1)[first : first + count]
        raise AssertionError("no such memory")


class Stream:
    def __init__(self, cuda: Cuda):
        self._cuda, self.number = cuda, next(cuda._numbers)
        self.ptr = self
        self.seen: dict[int, int] = {}

    def wait_event(self, event: "Event") -> None:
        for number, operation in event.seen.items():
            self.seen[number] = max(self.seen.get(number, 0), operation)

    def synchronize(self) -> None:
        pass

    def __enter__(self) -> None:
        self._cuda._current.append(self)

    def __exit__(self, *exception) -> None:
        self._cuda._current.pop()


class Event:
    done = True  # the stand-in computes at once

    def __init__(self):
        self.seen: dict[int, int] = {}

    def record(self, stream: Stream) -> None:
        self.seen = dict(stream.seen)


class Collectives:
    """A communicator: the sums are really computed."""

    def __init__(self, cuda: Cuda, size: int, unique_id: bytes, rank: int):
        assert type(unique_id) is bytes  # as CuPy's own, which takes nothing else
        assert (size, rank, unique_id) == (cuda._world.size, cuda._rank, cuda._world.unique_id)
        self._cuda, self._world, self._rank = cuda, cuda._world, rank

    def allReduce(self, source, target, count, kind, operation, stream):  # noqa: N802 - CuPy's name
        assert source == target
        host = self._cuda.host_at(source, count)
        self._cuda.touch(host, True, stream)
        assert host.dtype == kind
        host[...] = sum(self._world.meet(self._rank, ("allReduce", count, kind, operation), host))

    def allGather(self, source, target, count, kind, stream):  # noqa: N802 - CuPy's name
        host = self._cuda.host_at(source, count)
        gathered = self._cuda.host_at(target, count * self._world.size)
        self._cuda.touch(host, False, stream)
        self._cuda.touch(gathered, True, stream)
        gathered[...] = np.concatenate(self._world.meet(self._rank, ("allGather", count, kind), host))

    def abort(self):
        self._world.aborted.append(self._rank)

    def destroy(self):
        pass


class DeviceArray:
    """An array of the stand-in; what is done with it is done on the current stream."""

    def __init__(self, cuda: Cuda, host: np.ndarray):
        self._cuda, self._host = cuda, host
        self.size, self.dtype, self.flags, self.strides = host.size, host.dtype, host.flags, host.strides
        self.data = SimpleNamespace(ptr=_address(host))

    def get(self) -> np.ndarray:
        self._cuda.touch(self._host, False)
        return self._host.copy()

    def reshape(self, *shape) -> "DeviceArray":
        return DeviceArray(self._cuda, self._host.reshape(*shape))

    def __getitem__(self, index) -> "DeviceArray":
        return DeviceArray(self._cuda, self._host[index])

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self):
        return (self[i] for i in range(len(self._host)))

    def __setitem__(self, index, value) -> None:
        self._cuda.touch(self._host, True)
        self._host[index] = self._read(value)

    def __iadd__(self, value) -> "DeviceArray":
        self._cuda.touch(self._host, True)
        self._host += self._read(value)
        return self

    def _read(self, value):
        if isinstance(value, DeviceArray):
            self._cuda.touch(value._host, False)
            return value._host
        return value


def _address(host: np.ndarray) -> int:
    return host.__array_interface__["data"][0]
