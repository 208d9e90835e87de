"""Calls of cuBLAS by ctypes, to a library with the argument types of cublas_api.h."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from cuda_on_cpu import kernels

from minitransformer.errors import BackendError
from minitransformer.kernels.cupy.cublas import GEMM, GEMM_STRIDED_BATCHED, Cublas
from minitransformer.kernels.cupy.libraries import workspace

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
SOURCE = Path(__file__).parent / "cuda_on_cpu" / "cublas.cpp"


@pytest.fixture
def functions():
    if kernels.COMPILER is None:
        pytest.skip("g++ is not installed")
    library = kernels.built("#include <initializer_list>\n" + SOURCE.read_text(encoding="utf-8"), ())
    library.last_call.restype = ctypes.POINTER(ctypes.c_longlong)
    return library


@pytest.mark.parametrize(("name", "types"), [("gemmEx", GEMM), ("gemmStridedBatchedEx", GEMM_STRIDED_BATCHED)])
def test_addresses_strides_and_sizes_arrive_whole(name, types, functions, rng):
    largest = {ctypes.c_int: 2**31, ctypes.c_longlong: 2**40, ctypes.c_void_p: 2**47}
    arguments = [int(rng.integers(largest[each] // 2, largest[each])) for each in types]
    getattr(Cublas(functions), name)(*arguments)
    assert functions.last_call()[: len(types)] == arguments


def test_each_stream_of_each_gpu_has_a_handle_with_working_memory_of_its_own(functions):
    cublas = Cublas(functions)
    stream, gpu = 0x7F0000001000, 1
    first = cublas.handle(gpu, 90, stream, np)
    assert functions.last_call()[:3] == [first, stream, first]
    assert functions.last_call()[3:5] == [workspace(gpu, 90, stream, np).ctypes.data, 32 << 20]
    assert cublas.handle(gpu, 90, stream, np) == first > 2**32
    assert len({first, cublas.handle(gpu, 90, 0, np), cublas.handle(0, 80, stream, np)}) == 3


def test_a_refused_call_is_one_line(functions):
    ctypes.c_int.in_dll(functions, "refuses").value = 7
    with pytest.raises(BackendError, match=r"^cublasCreate: the status must be CUBLAS_STATUS_SUCCESS, got .* \(7\)"):
        Cublas(functions).handle(0, 80, 0, np)
    with pytest.raises(BackendError, match=r"^cublasGemmEx: .* got CUBLAS_STATUS_INVALID_VALUE \(7\)$"):
        Cublas(functions).gemmEx(*[1] * len(GEMM))
