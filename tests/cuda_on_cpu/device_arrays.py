"""CuPy on a CPU, with CUDA graphs: NumPy's arrays whose operations go to the current stream.

``cupy_stand_in(monkeypatch)`` puts it in the place of CuPy for one test. An operation finds its operands by their
addresses, as on a GPU, whatever lies there by the time when a graph does it.
"""

import ctypes
import math
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from cuda_on_cpu import kernels, products
from cuda_on_cpu.streams import MemoryPool, Stream, refuse_in_capture, using_allocator
from minitransformer.kernels.cupy import gemm, gemm_lt, launch

VIEWS = (np.broadcast_to, np.shape, np.ndim, np.size, np.may_share_memory)


class DeviceArray(np.ndarray):
    """An array whose operations go to the current stream."""

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=ctypes.c_void_p.from_address(id(self) + object.__basicsize__).value, mem=self.base)

    def __array_ufunc__(self, ufunc, method, *inputs, out=()):
        assert method == "__call__"
        if out:
            result = out[0]
        else:
            samples = [np.ones(1, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs]
            result = empty(np.broadcast_shapes(*map(np.shape, inputs)), ufunc(*samples).dtype)
        operands = [_at_address(x) if isinstance(x, DeviceArray) else x for x in inputs]
        Stream.current.do(partial(ufunc, *operands, out=_at_address(result)))
        return result

    def __array_function__(self, function, types, inputs, options):
        assert function in VIEWS, f"{function.__name__} of CuPy arrays"
        return super().__array_function__(function, types, inputs, options)

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return found if isinstance(found, DeviceArray) else super().__getitem__((*np.atleast_1d(index), ...))

    def __setitem__(self, index, value):
        assert np.isscalar(value) or isinstance(value, DeviceArray)
        source = _at_address(value) if isinstance(value, DeviceArray) else value
        Stream.current.do(partial(np.copyto, _at_address(self[index]), source))

    def fill(self, value):
        self[...] = value

    def astype(self, dtype, copy=True):
        return self if self.dtype == dtype and not copy else _copied(self, dtype)

    def copy(self):
        return _copied(self, self.dtype)

    def reshape(self, *shape):
        view = super().reshape(*shape)
        return view if np.may_share_memory(view, self) or not self.size else _copied(self, self.dtype).reshape(*shape)

    def get(self) -> np.ndarray:
        refuse_in_capture("reading a value")
        return np.array(_at_address(self))

    def min(self) -> int:
        """0: the package checks ids of NumPy's arrays, which CuPy's are not, but these are."""
        return 0

    max = min
    item = tolist = __float__ = __bool__ = __int__ = lambda self: self.get().item()


def _at_address(array: DeviceArray) -> np.ndarray:
    """What is in the array's place when it is read, which does not keep the array there."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    size = array.itemsize + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    memory = np.frombuffer((ctypes.c_char * size).from_address(array.data.ptr), np.uint8)[: array.itemsize]
    return as_strided(memory.view(array.dtype)[0:1].reshape(()), array.shape, array.strides)


def _copied(array: DeviceArray, dtype) -> DeviceArray:
    made = empty(array.shape, dtype)
    made[...] = array
    return made


def empty(shape, dtype=float) -> DeviceArray:
    """Full of NaN, so that a value that is never written is seen."""
    shape = (shape,) if np.isscalar(shape) else tuple(shape)
    dtype = np.dtype(dtype)
    block = MemoryPool.current.block(max(1, math.prod(shape)) * dtype.itemsize)
    array = block.view(dtype)[: math.prod(shape)].reshape(shape).view(DeviceArray)
    Stream.current.do(partial(_at_address(block.view(DeviceArray)).fill, 255))
    return array


def zeros(shape, dtype=float) -> DeviceArray:
    array = empty(shape, dtype)
    array.fill(0)
    return array


def asarray(values, dtype=None) -> DeviceArray:
    if isinstance(values, DeviceArray):
        return values if dtype is None else values.astype(dtype, copy=False)
    refuse_in_capture("a copy from the host")
    values = np.asarray(values, dtype)
    array = empty(values.shape, values.dtype)
    np.copyto(_at_address(array), values)
    return array


def ascontiguousarray(values, dtype=None) -> DeviceArray:
    array = asarray(values, dtype)
    return array if array.flags.c_contiguous else array.copy()


def _computed(function: Callable, shape, dtype, *inputs) -> DeviceArray:
    made, operands = empty(shape, dtype), [_at_address(each) for each in inputs]
    Stream.current.do(lambda: np.copyto(_at_address(made), function(*operands)))
    return made


def _deferred(function: Callable) -> Callable:
    return lambda *arguments: Stream.current.do(partial(function, *arguments))


def _compiled(file, kernel, dtype, names) -> Callable:
    function = kernels.compiled(file, kernel, dtype, names)

    def start(blocks, threads, arguments):
        operands = tuple(_at_address(each) if isinstance(each, DeviceArray) else each for each in arguments)
        Stream.current.do(lambda: function(blocks, threads, operands))

    return start


def cupy_stand_in(monkeypatch) -> ModuleType:
    """The module ``cupy`` for this test, as far as training uses it."""
    if kernels.COMPILER is None:
        pytest.skip("g++ is not installed: the kernels cannot be compiled for this machine")
    cupy, default_pool = ModuleType("cupy"), MemoryPool()
    for name in ("add", "divide", "equal", "exp", "logical_and", "maximum", "minimum", "multiply", "sqrt", "subtract"):
        setattr(cupy, name, getattr(np, name))
    vars(cupy).update(
        ndarray=DeviceArray,
        broadcast_to=np.broadcast_to,
        empty=empty,
        empty_like=lambda array: empty(array.shape, array.dtype),
        zeros=zeros,
        zeros_like=lambda array: zeros(array.shape, array.dtype),
        asarray=asarray,
        array=asarray,
        ascontiguousarray=ascontiguousarray,
        get_default_memory_pool=lambda: default_pool,
        tri=lambda n, dtype=float: _computed(partial(np.tri, n, dtype=dtype), (n, n), dtype),
        lib=SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=partial(as_strided, subok=True))),
        cuda=SimpleNamespace(
            Stream=Stream,
            MemoryPool=MemoryPool,
            using_allocator=using_allocator,
            get_current_stream=lambda: Stream.current,
            runtime=SimpleNamespace(deviceSynchronize=lambda: None, CUDARuntimeError=RuntimeError),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            Memory=lambda size: None,
            MemoryPointer=lambda memory, offset: None,
            Device=lambda: SimpleNamespace(mem_info=(1 << 34, 1 << 34)),
        ),
    )
    library = SimpleNamespace(
        **{name: _deferred(getattr(products, name)) for name in ("gemmEx", "gemmStridedBatchedEx")}
    )
    monkeypatch.setattr(Stream, "current", Stream(), raising=False)
    monkeypatch.setattr(MemoryPool, "current", default_pool, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(launch, "compiled", _compiled)
    monkeypatch.setattr(gemm, "cublas_library", lambda: library)
    monkeypatch.setattr(gemm, "cublas_handle", lambda: 0)
    monkeypatch.setattr(gemm_lt, "library", lambda: None)
    return cupy
