"""cuBLAS's two functions on NumPy arrays: addresses, columns before rows, and the conditions on leading dimensions."""

import ctypes

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minitransformer.kernels.cupy.gemm import COMPUTE_FLOAT64, COMPUTE_TF32, DATA_TYPES


def _dtype(code: int) -> np.dtype:
    return np.dtype(next(name for name, number in DATA_TYPES.items() if number == code))


def _matrices(address: int, code: int, rows: int, columns: int, ld: int, step: int, count: int) -> np.ndarray:
    """``count`` matrices whose columns lie one after the other, ``ld`` elements apart, as a view of that memory."""
    dtype = _dtype(code)
    assert ld >= rows, f"leading dimension {ld} below {rows} rows"
    n = (count - 1) * step + (columns - 1) * ld + rows
    memory = np.frombuffer((ctypes.c_char * (n * dtype.itemsize)).from_address(address), dtype)
    return as_strided(memory, (count, rows, columns), [s * dtype.itemsize for s in (step, 1, ld)])


def _number(address: int, compute: int) -> float:
    kind = ctypes.c_double if compute == COMPUTE_FLOAT64 else ctypes.c_float
    return kind.from_address(address).value


def gemmStridedBatchedEx(  # noqa: N802
    handle, transa, transb, m, n, k, alpha, a, atype, lda, stridea, b, btype, ldb, strideb, beta, c, ctype, ldc,
    stridec, count, compute, algorithm,
):  # fmt: skip
    wide = np.float64 if compute == COMPUTE_FLOAT64 else np.float32
    assert compute != COMPUTE_TF32 or atype == btype == DATA_TYPES["float32"]
    one = _matrices(a, atype, *((k, m) if transa else (m, k)), lda, stridea, count).astype(wide)
    other = _matrices(b, btype, *((n, k) if transb else (k, n)), ldb, strideb, count).astype(wide)
    out = _matrices(c, ctype, m, n, ldc, stridec, count)
    result = (one.swapaxes(1, 2) if transa else one) @ (other.swapaxes(1, 2) if transb else other)
    result *= wide(_number(alpha, compute))
    if _number(beta, compute):
        result += wide(_number(beta, compute)) * out.astype(wide)
    out[...] = result.astype(out.dtype)


def gemmEx(  # noqa: N802
    handle, transa, transb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta, c, ctype, ldc, compute, algorithm
):  # fmt: skip
    gemmStridedBatchedEx(
        handle, transa, transb, m, n, k, alpha, a, atype, lda, 0, b, btype, ldb, 0, beta, c, ctype, ldc, 0, 1, compute,
        algorithm,
    )  # fmt: skip
