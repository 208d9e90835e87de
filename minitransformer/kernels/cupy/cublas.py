"""cuBLAS's functions for products, by ctypes: CuPy's own binding refuses them while a CUDA graph is captured."""

import ctypes
from ctypes import byref, c_int, c_longlong, c_size_t, c_void_p
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

from minitransformer.backend import Array
from minitransformer.errors import BackendError
from minitransformer.kernels.cupy.launch import address
from minitransformer.kernels.cupy.libraries import cuda_library, current_device, workspace

_START = [c_void_p, *[c_int] * 5, c_void_p]  # handle, transa, transb, m, n, k, alpha
_MATRIX, _STEP = [c_void_p, c_int, c_int], [c_longlong]  # address, type, leading dimension; from matrix to matrix
GEMM = [*_START, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX, c_int, c_int]
"""The arguments of cublasGemmEx, in cublas_api.h."""
GEMM_STRIDED_BATCHED = [
    *_START, *_MATRIX, *_STEP, *_MATRIX, *_STEP, c_void_p, *_MATRIX, *_STEP, c_int, c_int, c_int
]  # fmt: skip


class Cublas:
    """libcublas, with a handle for each GPU and stream. Each has working memory of its own: what cuBLAS allocates by
    itself would become part of a graph.

    Raises (every method):
        BackendError: the library refused a call.
    """

    def __init__(self, functions: Any):
        self._functions = functions
        functions.cublasGetStatusString.restype = ctypes.c_char_p
        functions.cublasGemmEx.argtypes = GEMM
        functions.cublasGemmStridedBatchedEx.argtypes = GEMM_STRIDED_BATCHED
        self._handles: dict[tuple[int, int], int] = {}
        self._lock = Lock()

    def gemmEx(self, *arguments: Any) -> None:  # noqa: N802 - cuBLAS's name
        self._check("GemmEx", self._functions.cublasGemmEx(*arguments))

    def gemmStridedBatchedEx(self, *arguments: Any) -> None:  # noqa: N802 - cuBLAS's name
        self._check("GemmStridedBatchedEx", self._functions.cublasGemmStridedBatchedEx(*arguments))

    def handle(self, gpu: int, capability: int, stream: int, xp: ModuleType) -> int:
        """The handle of the stream, made when it is first asked for."""
        if (gpu, stream) not in self._handles:
            with self._lock:
                if (gpu, stream) not in self._handles:
                    self._handles[gpu, stream] = self._new_handle(stream, workspace(gpu, capability, stream, xp))
        return self._handles[gpu, stream]

    def _new_handle(self, stream: int, memory: Array) -> int:
        handle, start, size = c_void_p(), c_void_p(address(memory)), c_size_t(memory.nbytes)
        self._check("Create", self._functions.cublasCreate_v2(byref(handle)))
        self._check("SetStream", self._functions.cublasSetStream_v2(handle, c_void_p(stream)))
        # Set after the stream, which takes cuBLAS's own memory again.
        self._check("SetWorkspace", self._functions.cublasSetWorkspace_v2(handle, start, size))
        return handle.value

    def _check(self, name: str, status: int) -> None:
        if status:
            text = self._functions.cublasGetStatusString(c_int(status)).decode()
            raise BackendError(f"cublas{name}: the status must be CUBLAS_STATUS_SUCCESS, got {text} ({status})")


@cache
def cublas_library() -> Cublas:
    return Cublas(cuda_library("cublas"))


def cublas_handle() -> int:
    """The handle for the current stream of the current GPU."""
    import cupy

    return cublas_library().handle(*current_device(), cupy)
