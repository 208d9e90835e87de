"""oneMKL's matrix products, called through ctypes: of two matrices or of two stacks of them, as they lie in memory.

The library comes with the extra ``mkl`` (x86-64, Linux and Windows). Its results do not depend on where arrays begin in
memory: in its strict mode (CBWR) the same factors on as many threads give the same bits.
"""

import ctypes
import importlib.metadata
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from minitransformer.blas import blas_threads, core_count
from minitransformer.errors import BackendError, install_hint, printable

# Enumerations of mkl_cblas.h and mkl_types.h.
ROW_MAJOR, PLAIN, TRANSPOSED, PACKED, RIGHT_FACTOR = 101, 111, 112, 151, 162
AUTO_STRICT = 2 | 0x10000  # MKL_CBWR_AUTO | MKL_CBWR_STRICT
ALIGNMENT = 64  # bytes

PREFIXES = {np.dtype(np.float32): ("s", c_float), np.dtype(np.float64): ("d", c_double)}


class Matrix(NamedTuple):
    """What the library is told of a factor: the array, or a copy of it if it has no unit stride; whether that lies
    transposed in memory; elements from one row, or one column, to the next."""

    array: np.ndarray
    order: int
    step: int

    @classmethod
    def of(cls, x: np.ndarray) -> "Matrix":
        row, column = (stride // x.itemsize for stride in x.strides[-2:])
        if column == 1 and row >= x.shape[-1]:
            return cls(x, PLAIN, row)
        if row == 1 and column >= x.shape[-2]:
            return cls(x, TRANSPOSED, column)
        return cls(np.ascontiguousarray(x), PLAIN, x.shape[-1])


class Library:
    """oneMKL in the file ``path``.

    Raises:
        OSError, AttributeError: it cannot be loaded, or lacks a function.
        BackendError: it cannot be set to give the same bits each time.
    """

    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        if library.MKL_CBWR_Set(AUTO_STRICT) != 0:
            raise BackendError("it must be set to repeat its results (CBWR) before its first product")
        library.MKL_Set_Dynamic(0)  # as many threads as it is told, whatever the load
        text = ctypes.create_string_buffer(256)
        library.MKL_Get_Version_String(text, len(text))
        words = text.value.decode("ascii", "replace").split()
        self.version = printable(next((word for word in words if word[:1].isdigit()), "unknown"), 40).split("-")[0]
        self._set_threads = library.MKL_Set_Num_Threads_Local
        sizes, one = [c_int64] * 3, [c_void_p, c_int64]
        self._gemm, self._batch, self._pack, self._pack_size, self._compute = {}, {}, {}, {}, {}
        for dtype, (prefix, number) in PREFIXES.items():
            for functions, name, arguments in (
                (self._gemm, "", [*[c_int] * 3, *sizes, number, *one, *one, number, *one]),
                (self._batch, "_batch", [c_int, *[c_void_p] * 13, c_int64, c_void_p]),
                (self._pack_size, "_pack_get_size", [c_int, *sizes]),
                (self._pack, "_pack", [*[c_int] * 3, *sizes, number, *one, c_void_p]),
                (self._compute, "_compute", [*[c_int] * 3, *sizes, *one, *one, number, *one]),
            ):
                functions[dtype] = getattr(library, f"cblas_{prefix}gemm{name}_64")  # the integers have 64 bits
                functions[dtype].argtypes = arguments
            self._pack_size[dtype].restype = c_size_t

    def matmul(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, add: bool) -> None:
        """out = a b, or with ``add`` out += a b: (..., n, k), (..., k, m) and (..., n, m), the same leading axes and
        dtype in all, none empty; rows of ``out`` are contiguous."""
        self._limit_threads()
        a, b = Matrix.of(a), Matrix.of(b)
        sizes, step = (*out.shape[-2:], a.array.shape[-1]), out.strides[-2] // out.itemsize
        if out.ndim == 2:
            of_a, of_b = (each.array.ctypes.data for each in (a, b))
            factors = (of_a, a.step, of_b, b.step, add, out.ctypes.data, step)
            self._gemm[out.dtype](ROW_MAJOR, a.order, b.order, *sizes, 1.0, *factors)
            return
        number, stacks = PREFIXES[out.dtype][1], [addresses(each) for each in (a.array, b.array, out)]
        of_a, of_b, of_y = (stack.ctypes.data for stack in stacks)
        orders = [byref(c_int(each.order)) for each in (a, b)]
        sizes, steps = ([byref(c_int64(each)) for each in values] for values in (sizes, (a.step, b.step, step)))
        factors = (byref(number(1.0)), of_a, steps[0], of_b, steps[1], byref(number(add)), of_y, steps[2])
        self._batch[out.dtype](ROW_MAJOR, *orders, *sizes, *factors, 1, byref(c_int64(len(stacks[2]))))

    def pack(self, b: np.ndarray) -> np.ndarray:
        """A copy of a right factor, (k, m), in the library's own layout, for `packed_matmul`; its bytes."""
        (k, m), matrix, size = b.shape, Matrix.of(b), self.packed_size(b.shape, b.dtype)
        packed = np.empty(size + ALIGNMENT, np.uint8)
        packed = packed[-packed.ctypes.data % ALIGNMENT :][:size]
        source = (matrix.array.ctypes.data, matrix.step, packed.ctypes.data)
        self._pack[b.dtype](ROW_MAJOR, RIGHT_FACTOR, matrix.order, 1, m, k, 1.0, *source)
        return packed

    def packed_size(self, shape: tuple[int, int], dtype: np.dtype) -> int:
        """Bytes of a packed matrix, work space included."""
        return self._pack_size[np.dtype(dtype)](RIGHT_FACTOR, 1, *reversed(shape))

    def packed_matmul(self, a: np.ndarray, packed: np.ndarray, m: int) -> np.ndarray:
        """a b, (n, k) and (k, m) to (n, m), for a packed b"""
        self._limit_threads()
        (n, k), matrix, out = a.shape, Matrix.of(a), np.empty((len(a), m), a.dtype)
        factors = (matrix.array.ctypes.data, matrix.step, packed.ctypes.data, m, 0.0, out.ctypes.data, m)
        self._compute[a.dtype](ROW_MAJOR, matrix.order, PACKED, n, m, k, *factors)
        return out

    def _limit_threads(self) -> None:
        """As many threads as NumPy's BLAS has now, for this thread's products: fewer within `limited_blas_threads`."""
        self._set_threads(blas_threads() or core_count())


def addresses(stack: np.ndarray) -> np.ndarray:
    """Where each matrix of a stack begins in memory."""
    return _offsets(stack.shape[:-2], stack.strides[:-2]) + stack.ctypes.data


@lru_cache(1 << 12)
def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    offsets = np.zeros((), np.int64)
    for count, stride in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(count) * stride
    return offsets.ravel()


@cache
def load() -> Library | None:
    """The library, or None if the extra is not installed.

    Raises:
        BackendError: it cannot be used; the message says why.
    """
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    try:
        path = next(file.locate() for file in files if file.name.startswith(("libmkl_rt.so", "mkl_rt.")))
        library = Library(str(path))
        check(library)
        return library
    except (StopIteration, OSError, AttributeError, BackendError) as error:
        reason = printable(str(error) or "the package has no file libmkl_rt", 100)
        raise BackendError(f"oneMKL cannot be used ({reason}); {install_hint('mkl')}") from error


def check(library: Library) -> None:
    """Compare products of every kind with NumPy's, and with themselves for arrays that begin elsewhere in memory.

    Raises:
        BackendError: they differ.
    """
    rng = np.random.default_rng(0)
    for dtype, stack in ((dtype, stack) for dtype in PREFIXES for stack in ((), (2, 3))):
        a, b, start = (rng.standard_normal((*stack, *shape)).astype(dtype) for shape in ((9, 33), (33, 70), (9, 70)))
        for left, right in ((a, b), (np.asfortranarray(a), b.swapaxes(-1, -2).copy().swapaxes(-1, -2))):
            results = []
            for offset in (0, 1):
                memory = np.empty(start.size + offset, dtype)[offset:].reshape(start.shape)
                memory[...] = start
                library.matmul(left, right, memory, add=True)
                results.append(memory)
            if not stack:
                results.append(library.packed_matmul(left, library.pack(right), right.shape[-1]) + start)
            tolerance = 1e3 * np.finfo(dtype).eps
            right_sums = all(np.allclose(each, left @ right + start, tolerance, tolerance) for each in results)
            if not right_sums or results[0].tobytes() != results[1].tobytes():
                raise BackendError(f"its products of {dtype} must be those of NumPy, each time with the same bits")
