"""Arrays without values: views are NumPy's, everything else goes to a listener and computes nothing."""

import ctypes
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

ALIGNMENT = 512  # bytes: where CuPy's memory pool begins each array


class ValueNeeded(AssertionError):
    """A value is asked for where there are only shapes."""


class HostClock:
    """The processor time of this thread, without that of the functions that are ``left_out``: those of the stand-in,
    where the real library takes a few microseconds. Where the clock does not run, they are called as they are."""

    def __init__(self):
        self.is_running, self._left_out, self._depth, self._stopped_at = True, 0.0, 0, 0.0

    def seconds(self) -> float:
        return (self._stopped_at if self._depth else time.thread_time()) - self._left_out

    def left_out(self, function: Callable) -> Callable:
        @wraps(function)
        def stopped(*inputs, **options):
            if not self.is_running:
                return function(*inputs, **options)
            if not self._depth:
                self._stopped_at = time.thread_time()
            self._depth += 1
            try:
                return function(*inputs, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._left_out += time.thread_time() - self._stopped_at

        return stopped


host_clock = HostClock()


class Listener:
    """What hears of every allocation, and of every operation of CuPy's own on arrays; here it does nothing."""

    def allocated(self, array: np.ndarray) -> None: ...

    def operation(self, name: str, reads: Sequence[np.ndarray], writes: Sequence[np.ndarray]) -> None: ...


class MetaArray(np.ndarray):
    """An array without values: views are NumPy's, everything else goes to the listener and computes nothing."""

    listener = Listener()

    @property
    def data(self) -> SimpleNamespace:
        """As CuPy's, with the address: in NumPy's array object it follows the head that all objects have."""
        return SimpleNamespace(ptr=ctypes.c_void_p.from_address(id(self) + object.__basicsize__).value)

    @host_clock.left_out
    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if method != "__call__":
            raise NotImplementedError(f"{ufunc.__name__}.{method} of arrays without values")
        if out:
            result = out[0]
        else:
            samples = [np.ones(1, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs]
            result = empty(np.broadcast_shapes(*map(np.shape, inputs)), ufunc(*samples).dtype)
        self.listener.operation(ufunc.__name__, [x for x in inputs if isinstance(x, MetaArray)], [result])
        return result

    def __array_function__(self, function, types, inputs, options):
        if function in VIEWS:
            return super().__array_function__(function, types, inputs, options)
        raise NotImplementedError(f"numpy.{function.__name__} of arrays without values")

    def __getitem__(self, index):
        if isinstance(index, MetaArray):
            taken = empty((*index.shape, *self.shape[1:]), self.dtype)
            self.listener.operation("take", [taken, index], [taken])
            return taken
        found = super().__getitem__(index)
        is_view = isinstance(found, MetaArray)  # and not one element, which with CuPy is an array too
        return found if is_view else super().__getitem__((*(index if isinstance(index, tuple) else (index,)), ...))

    @host_clock.left_out
    def __setitem__(self, index, value):
        target = self[index]
        reads = [value] if isinstance(value, MetaArray) else []
        self.listener.operation("copy" if isinstance(value, np.ndarray) else "fill", reads, [target])

    @host_clock.left_out
    def fill(self, value):
        self.listener.operation("fill", [], [self])

    def astype(self, dtype, copy=True):
        return self if self.dtype == dtype and not copy else _copied("cast", self, dtype)

    def copy(self):
        return _copied("copy", self, self.dtype)

    def reshape(self, *shape):
        view = super().reshape(*shape)
        is_view = self.flags.c_contiguous or np.may_share_memory(view, self)
        return view if is_view else _copied("copy", self, self.dtype).reshape(*shape)

    def _value(self, *unused):
        raise ValueNeeded("a value of the device is asked for: the host would wait")

    def min(self):
        """0: the package checks ids of NumPy's arrays, which CuPy's are not, but these are."""
        return 0

    max = min
    get = item = tolist = __float__ = __int__ = __bool__ = __index__ = _value


VIEWS = (np.broadcast_to, np.shape, np.ndim, np.size, np.may_share_memory, np.shares_memory)


class Pool:
    """Arrays that were made before, by shape and dtype, where ``pool.arrays`` is a dict: CuPy's pool hands memory out
    within a microsecond, the system takes ten to reserve it. There two arrays may lie in the same memory."""

    arrays: dict[tuple, MetaArray] | None = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.arrays = {}
        try:
            yield
        finally:
            self.arrays = None


pool = Pool()


def empty(shape: int | tuple[int, ...], dtype: Any = float, order: str = "C") -> MetaArray:
    """Reserved memory, of which no page is touched."""
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if pool.arrays is None:
        return _reserved(shape, dtype)
    key = (shape, np.dtype(dtype))
    if key not in pool.arrays:
        pool.arrays[key] = _reserved(shape, dtype)
    return pool.arrays[key].view()


@host_clock.left_out
def _reserved(shape: tuple[int, ...], dtype: Any) -> MetaArray:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array = memory[start : start + size].view(dtype).reshape(shape).view(MetaArray)
    array.listener.allocated(array)
    return array


def zeros(shape: int | tuple[int, ...], dtype: Any = float) -> MetaArray:
    array = empty(shape, dtype)
    array.fill(0)
    return array


def asarray(values: Any, dtype: Any = None) -> MetaArray:
    """From the host to the device, if it is not there."""
    if isinstance(values, MetaArray):
        return values if dtype is None else values.astype(dtype, copy=False)
    values = np.asarray(values, dtype)
    return new_array("copy from the host", [], values.shape, values.dtype)


def ascontiguousarray(values: Any, dtype: Any = None) -> MetaArray:
    array = asarray(values, dtype)
    return array if array.flags.c_contiguous else array.copy()


@host_clock.left_out
def new_array(name: str, reads: Sequence[np.ndarray], shape: tuple[int, ...], dtype: Any) -> MetaArray:
    array = empty(shape, dtype)
    array.listener.operation(name, reads, [array])
    return array


def _copied(name: str, array: MetaArray, dtype: Any) -> MetaArray:
    return new_array(name, [array], array.shape, dtype)


def stack(arrays: Sequence[MetaArray]) -> MetaArray:
    return new_array("stack", arrays, (len(arrays), *arrays[0].shape), arrays[0].dtype)
