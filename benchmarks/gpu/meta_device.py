"""CuPy without a GPU and without values: arrays of a shape, a dtype and an address, as on PyTorch's meta device.

Within ``meta_device()`` the package's own code for GPUs runs at any size: memory is reserved and never touched, kernels
and products return at once. What asks for a value raises ValueNeeded: a GPU would have to be waited for.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.lib.stride_tricks import as_strided

from benchmarks.gpu.meta_arrays import (
    Listener,
    MetaArray,
    asarray,
    ascontiguousarray,
    empty,
    new_array,
    stack,
    zeros,
)
from minitransformer.kernels.cupy import gemm, gemm_lt, launch
from minitransformer.models import base
from minitransformer.nn.randomness import ShapesOnly

CAPABILITY, MEMORY = 90, 141 * 10**9
"""Of an H200: ten times its compute capability, and bytes."""


class _Stream(nullcontext):
    """A stream, and a graph that has been captured on it: launching it is one operation."""

    def __init__(self, non_blocking: bool = False):
        super().__init__()

    def record(self) -> None: ...

    def wait_event(self, event: None) -> None: ...

    def begin_capture(self) -> None: ...

    def end_capture(self) -> "_Stream":
        return self

    def launch(self) -> None:
        MetaArray.listener.operation("CUDA graph", [], [])


def _cupy() -> ModuleType:
    """The module ``cupy``, as far as the update of a Transformer uses it; what it lacks raises AttributeError."""
    cupy = ModuleType("cupy")
    ufuncs = ("add", "divide", "equal", "exp", "logical_and", "maximum", "minimum", "multiply", "sqrt", "subtract")
    vars(cupy).update({name: getattr(np, name) for name in (*ufuncs, "broadcast_to")})
    vars(cupy).update(
        ndarray=MetaArray,
        empty=empty,
        empty_like=lambda array: empty(array.shape, array.dtype),
        zeros=zeros,
        zeros_like=lambda array: zeros(array.shape, array.dtype),
        asarray=asarray,
        array=asarray,
        ascontiguousarray=ascontiguousarray,
        arange=lambda n, dtype=np.int64: new_array("arange", [], (n,), dtype),
        searchsorted=lambda x, wanted, side="left": new_array("searchsorted", [wanted], wanted.shape, np.int64),
        tri=lambda n, dtype=float: new_array("tri", [], (n, n), dtype),
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
        stack=stack,
        lib=SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=partial(as_strided, subok=True))),
        cuda=SimpleNamespace(
            runtime=SimpleNamespace(deviceSynchronize=lambda: None),
            Device=lambda: SimpleNamespace(id=0, compute_capability=str(CAPABILITY), mem_info=(MEMORY, MEMORY)),
            Stream=_Stream,
            get_current_stream=_Stream,
            MemoryPool=lambda allocator: SimpleNamespace(malloc=None, set_limit=lambda size: None),
            using_allocator=lambda malloc: nullcontext(),
        ),
    )
    return cupy


class _NoFunction:
    """A function of libcublasLt that succeeds."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *arguments: Any) -> int:
        if self.name == "cublasLtMatmulAlgoGetHeuristic":
            arguments[-1]._obj.value = 1  # one algorithm is found
        return 0


class _NoLibrary:
    """cuBLAS and cuBLASLt: every function succeeds and does nothing."""

    def __getattr__(self, name: str) -> Callable:
        function = self.__dict__[name] = _NoFunction(name)
        return function


@contextmanager
def meta_device(listener: Listener | None = None) -> Iterator[ModuleType]:
    """In the block ``cupy`` is the module that is returned, and models are built without drawing their weights."""
    cublas, cublas_lt = _NoLibrary(), gemm_lt.Library(_NoLibrary())
    with ExitStack() as patches:
        for where, name, value in (
            (MetaArray, "listener", listener or Listener()),
            (launch, "compiled", lambda file, kernel, dtype, names: lambda blocks, threads, arguments: None),
            (gemm, "cublas_library", lambda: cublas),
            (gemm, "cublas_handle", lambda: 0),
            (gemm_lt, "library", lambda: cublas_lt),
            (gemm_lt, "current_device", lambda: (0, CAPABILITY, 0)),
            (base, "Initializer", lambda seed: ShapesOnly()),
        ):
            patches.enter_context(patch.object(where, name, value))
        cupy = _cupy()
        patches.enter_context(patch.dict(sys.modules, {"cupy": cupy}))
        yield cupy
