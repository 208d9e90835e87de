"""Matrix products by cuBLAS: of two matrices or of two stacks of them, transposed or not, in every precision.

CuPy's own matmul copies transposed stacks and knows neither bfloat16 nor TF32 for them; this layer passes strides.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.launch import Counter, address, name_of

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
    n, k = a.shape[-2:][:: -1 if transpose_a else 1]
    k_b, m = b.shape[-2:][:: -1 if transpose_b else 1]
    if k != k_b or a.shape[:-2] != b.shape[:-2] or a.dtype != b.dtype:
        shapes = f"{a.dtype} {a.shape} and {b.dtype} {b.shape}"
        raise ShapeError(f"matmul: factors must fit together and have one type, got {shapes}")
    if 0 in (*a.shape, *b.shape):
        raise ShapeError(f"matmul: no axis may be empty, got {a.shape} and {b.shape}")
    return a.shape[:-2], (n, k), m


def _factor(x: Array) -> tuple[Array, tuple[int, int, int, int]]:
    """x, or a copy of it for strides that cuBLAS cannot take, and what cuBLAS takes: address, type, elements from one
    row to the next and from one matrix to the next."""
    *steps, row, column = (stride // x.itemsize for stride in x.strides)
    sizes = x.shape[:-2]
    # The matrices must be equally spaced in memory, whatever axes they are indexed by.
    even = all(steps[i] == steps[i + 1] * sizes[i + 1] for i in range(len(steps) - 1) if sizes[i] > 1)
    if (column != 1 and x.shape[-1] > 1) or row < x.shape[-1] or not even:
        x = get_array_module(x).ascontiguousarray(x)
        row, steps = x.shape[-1], [x.shape[-2] * x.shape[-1]]
    return x, (address(x), DATA_TYPES[name_of(x.dtype)], row, steps[-1] if steps else 0)


@cache
def _scale(value: float, is_double: bool) -> tuple[int, np.ndarray]:
    """The address of a factor that cuBLAS reads, and the array that keeps it there."""
    array = np.array(value, np.float64 if is_double else np.float32)
    return array.ctypes.data, array


@cache
def cublas_library() -> Any:
    from cupy_backends.cuda.libs import cublas

    return cublas


def cublas_handle() -> int:
    from cupy.cuda import device

    return device.get_cublas_handle()
