"""Matrix products by cuBLAS: of two matrices or of two stacks of them, transposed or not, in every precision.

CuPy's own matmul copies transposed stacks and knows neither bfloat16 nor TF32 for them; this layer passes strides.
"""

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.cublas import cublas_handle, cublas_library
from minitransformer.kernels.cupy.launch import Counter, address, name_of

# cuBLAS's enumerations for data types and arithmetic: library_types.h and cublas_api.h.
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
COMPUTE_FLOAT32, COMPUTE_FLOAT64, COMPUTE_TF32 = 68, 70, 77
DEFAULT_ALGORITHM = -1
KEPT = 1 << 14
"""Shapes whose layout is kept: an update has some dozens, and those of a training repeat."""


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

    a: (..., n, k), or (..., k, n) with transpose_a   b: (..., k, m), or (..., m, k) with transpose_b
    y: (..., n, m), the same leading axes in all; space between rows of ``out`` is left as it is
    dtype: of y (default: that of a)   tf32: for float32 factors

    Raises:
        ShapeError: the factors do not fit together, or one is empty.
    """
    stack, (n, k), m = sizes_of(a, b, transpose_a, transpose_b)
    if out is None:
        out = get_array_module(a).empty((*stack, n, m), a.dtype if dtype is None else dtype)
    kind, count = name_of(a.dtype), math.prod(stack)
    compute = COMPUTE_FLOAT64 if kind == "float64" else COMPUTE_TF32 if tf32 and kind == "float32" else COMPUTE_FLOAT32
    (one, _), (other, _) = (_scale(float(factor), kind == "float64") for factor in (alpha, add))
    (a, of_a), (b, of_b) = _factor(a), _factor(b)
    # cuBLAS is column-major: its y^T = b^T a^T is the row-major y = a b.
    shape = (cublas_handle(), int(transpose_b), int(transpose_a), m, n, k)
    row = max(m, out.strides[-2] // out.itemsize)  # elements from one row to the next
    of_y = (address(out), DATA_TYPES[name_of(out.dtype)], row, n * row)
    cublas = cublas_library()
    Counter.launches += 1
    if count == 1:
        cublas.gemmEx(*shape, one, *of_b[:3], *of_a[:3], other, *of_y[:3], compute, DEFAULT_ALGORITHM)
    else:
        cublas.gemmStridedBatchedEx(*shape, one, *of_b, *of_a, other, *of_y, count, compute, DEFAULT_ALGORITHM)
    return out


def sizes_of(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> tuple[tuple[int, ...], tuple[int, int], int]:
    """(leading axes, (n, k), m) of a product as in ``matmul``: what a library that sees only addresses cannot check.

    Raises:
        ShapeError: the factors do not fit together, or one is empty.
    """
    if a.dtype != b.dtype:
        raise ShapeError(f"matmul: both factors must have one type, got {a.dtype} and {b.dtype}")
    return _sizes(a.shape, b.shape, transpose_a, transpose_b)


@lru_cache(KEPT)
def _sizes(
    of_a: tuple[int, ...], of_b: tuple[int, ...], transpose_a: bool, transpose_b: bool
) -> tuple[tuple[int, ...], tuple[int, int], int]:
    n, k = of_a[-2:][:: -1 if transpose_a else 1]
    k_b, m = of_b[-2:][:: -1 if transpose_b else 1]
    if k != k_b or of_a[:-2] != of_b[:-2]:
        raise ShapeError(f"matmul: both factors must fit together, got {of_a} and {of_b}")
    if 0 in (*of_a, *of_b):
        raise ShapeError(f"matmul: no axis may be empty, got {of_a} and {of_b}")
    return of_a[:-2], (n, k), m


def _factor(x: Array) -> tuple[Array, tuple[int, int, int, int]]:
    """x, or a copy of it for strides that cuBLAS cannot take, and what cuBLAS takes: address, type, elements from one
    row to the next and from one matrix to the next."""
    spaces = _spaces(x.shape, x.strides, x.itemsize)
    if spaces is None:
        x = get_array_module(x).ascontiguousarray(x)
        spaces = x.shape[-1], x.shape[-2] * x.shape[-1]
    return x, (address(x), DATA_TYPES[name_of(x.dtype)], *spaces)


@lru_cache(KEPT)
def _spaces(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int] | None:
    """Elements from one row to the next and from one matrix to the next; None if cuBLAS cannot take these strides."""
    *steps, row, column = (stride // itemsize for stride in strides)
    # The matrices must be equally spaced in memory, whatever axes they are indexed by.
    even = all(steps[i] == steps[i + 1] * shape[i + 1] for i in range(len(steps) - 1) if shape[i] > 1)
    if (column != 1 and shape[-1] > 1) or row < shape[-1] or not even:
        return None
    return row, steps[-1] if steps else 0


@cache
def _scale(value: float, is_double: bool) -> tuple[int, np.ndarray]:
    """The address of a factor that cuBLAS reads, and the array that keeps it there."""
    array = np.array(value, np.float64 if is_double else np.float32)
    return array.ctypes.data, array
