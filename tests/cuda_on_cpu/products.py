"""cuBLAS's GemmEx on NumPy arrays: addresses, columns before rows, and the conditions on leading dimensions."""

import ctypes

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minitransformer.kernels.cupy.gemm import COMPUTE_FLOAT64, COMPUTE_TF32, DATA_TYPES


def _dtype(code: int) -> np.dtype:
    return np.dtype(next(name for name, number in DATA_TYPES.items() if number == code))


def _matrix(address: int, code: int, rows: int, columns: int, ld: int) -> np.ndarray:
    """A matrix whose columns lie one after the other, ``ld`` elements apart, as a view of that memory."""
    dtype = _dtype(code)
    assert ld >= rows, f"leading dimension {ld} below {rows} rows"
    n = (columns - 1) * ld + rows
    memory = np.frombuffer((ctypes.c_char * (n * dtype.itemsize)).from_address(address), dtype)
    return as_strided(memory, (rows, columns), [s * dtype.itemsize for s in (1, ld)])


def _number(address: int, compute: int) -> float:
    kind = ctypes.c_double if compute == COMPUTE_FLOAT64 else ctypes.c_float
    return kind.from_address(address).value


def gemmEx(  # noqa: N802
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int, B: int,
    Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int, computeType: int, algo: int,
) -> None:  # fmt: skip  # noqa: N803
    """With the arguments of CuPy's binding, which takes integers alone."""
    assert all(type(value) is int for value in locals().values())
    wide = np.float64 if computeType == COMPUTE_FLOAT64 else np.float32
    assert computeType != COMPUTE_TF32 or Atype == Btype == DATA_TYPES["float32"]
    one = _matrix(A, Atype, *((k, m) if transa else (m, k)), lda).astype(wide)
    other = _matrix(B, Btype, *((n, k) if transb else (k, n)), ldb).astype(wide)
    out = _matrix(C, Ctype, m, n, ldc)
    result = (one.T if transa else one) @ (other.T if transb else other)
    result *= wide(_number(alpha, computeType))
    if _number(beta, computeType):
        result += wide(_number(beta, computeType)) * out.astype(wide)
    out[...] = result.astype(out.dtype)
