"""Matrix products with cuBLAS, in every precision: of two matrices, transposed or not.

This calls cuBLAS's GemmEx through CuPy's binding: CuPy's own matmul would round gradients of parameters to half
precision, and offers TF32 only as a setting of the whole process.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from minitransformer.backend import Array, address, get_array_module
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.launch import Counter, name_of

# cuBLAS's enumerations for data types and arithmetic: library_types.h and cublas_api.h.
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
COMPUTE_FLOAT32, COMPUTE_FLOAT64, COMPUTE_TF32 = 68, 70, 77
DEFAULT_ALGORITHM = -1


def matmul(
    a: Array,
    b: Array,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: Array | None = None,
    add: bool = False,
    dtype: Any = None,
    alpha: float = 1.0,
    tf32: bool = False,
) -> Array:
    """y = alpha a b, or with ``add`` y = out + alpha a b; accumulated in float32 (float64 for float64)

    a: (n, k), or (k, n) with transpose_a   b: (k, m), or (m, k) with transpose_b
    y: (n, m); space between rows of ``out`` is left untouched
    dtype: of y (default: that of a)   tf32: for float32 factors

    Raises:
        ShapeError: the factors do not fit together, or one is empty.
    """
    (n, k), (k_b, m) = a.shape[:: -1 if transpose_a else 1], b.shape[:: -1 if transpose_b else 1]
    if k != k_b or 0 in (n, k, m):  # a library that sees only addresses cannot check
        raise ShapeError(f"matmul: both factors must fit together and none may be empty, got {a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise ShapeError(f"matmul: both factors must have one type, got {a.dtype} and {b.dtype}")
    if out is None:
        out = get_array_module(a).empty((n, m), a.dtype if dtype is None else dtype)
    kind, (a, transpose_a), (b, transpose_b) = name_of(a.dtype), _as_stored(a, transpose_a), _as_stored(b, transpose_b)
    compute = COMPUTE_FLOAT64 if kind == "float64" else COMPUTE_TF32 if tf32 and kind == "float32" else COMPUTE_FLOAT32
    factors = np.array([alpha, add], np.float64 if kind == "float64" else np.float32)  # read by cuBLAS on the host
    gemm_ex, handle_of_device = cublas()
    Counter.launches += 1
    # cuBLAS is column-major: its y^T = b^T a^T is the row-major y = a b.
    shape = (handle_of_device(), int(transpose_b), int(transpose_a), m, n, k)
    one, other = factors.ctypes.data, factors.ctypes.data + factors.itemsize
    gemm_ex(*shape, one, *_matrix(b), *_matrix(a), other, *_matrix(out), compute, DEFAULT_ALGORITHM)
    return out


def _as_stored(x: Array, transpose: bool) -> tuple[Array, bool]:
    """x, its transpose or a copy, whose values in a row are adjacent; and whether cuBLAS must transpose it."""
    for each, flag in ((x, transpose), (x.T, not transpose)):
        row, column = each.strides
        if column == each.itemsize and row >= each.shape[1] * each.itemsize:
            return each, flag
    return get_array_module(x).ascontiguousarray(x), transpose


def _matrix(x: Array) -> tuple[int, int, int]:
    """A matrix as cuBLAS takes it: address, type, elements from one row to the next."""
    return address(x), DATA_TYPES[name_of(x.dtype)], max(x.shape[1], x.strides[0] // x.itemsize)


@cache
def cublas() -> tuple[Callable, Callable]:
    """GemmEx, and the function that gives the handle of the current GPU."""
    from cupy.cuda import cublas, device

    return cublas.gemmEx, device.get_cublas_handle
