"""oneMKL's matrix products, called through ctypes: of two matrices or of two stacks of them, as they lie in memory.

The library comes with the extra ``mkl`` (x86-64, Linux and Windows). Its results do not depend on where arrays begin in
memory: in its strict mode (CBWR) the same factors on as many threads give the same bits.
"""

import ctypes
import importlib.metadata
import itertools
import re
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from functools import cache, lru_cache

import numpy as np

from minitransformer.blas import blas_threads, core_count
from minitransformer.errors import BackendError, install_hint, printable

# Enumerations of mkl_cblas.h and mkl_types.h.
ROW_MAJOR, PLAIN, TRANSPOSED, PACKED, RIGHT_FACTOR = 101, 111, 112, 151, 162
AUTO_STRICT = 2 | 0x10000  # MKL_CBWR_AUTO | MKL_CBWR_STRICT
ALIGNMENT = 64  # bytes

PREFIXES = {np.dtype(np.float32): ("s", c_float), np.dtype(np.float64): ("d", c_double)}


SIZES, MATRIX = [c_int64] * 3, [c_void_p, c_int64]
FUNCTIONS = {
    "": lambda number: [*[c_int] * 3, *SIZES, number, *MATRIX, *MATRIX, number, *MATRIX],
    "_batch": lambda number: [c_int, *[c_void_p] * 13, c_int64, c_void_p],
    "_pack_get_size": lambda number: [c_int, *SIZES],
    "_pack": lambda number: [*[c_int] * 3, *SIZES, number, *MATRIX, c_void_p],
    "_compute": lambda number: [*[c_int] * 3, *SIZES, *MATRIX, *MATRIX, number, *MATRIX],
}
"""The types of arguments of cblas_sgemm and its relatives, by what follows the name, for a number of this type."""


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
        self.version = re.search(r"[\d.]+|$", text.value.decode("ascii", "replace"))[0]
        self._set_threads, self._functions = library.MKL_Set_Num_Threads_Local, {}
        for dtype, (prefix, number) in PREFIXES.items():
            for name, types in FUNCTIONS.items():
                function = self._functions[name, dtype] = getattr(library, f"cblas_{prefix}gemm{name}_64")
                function.argtypes, function.restype = types(number), c_size_t if name == "_pack_get_size" else None

    def matmul(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, add: bool) -> None:
        """out = a b, or with ``add`` out += a b: (..., n, k), (..., k, m) and (..., n, m), the same leading axes and
        dtype in all, none empty; ``out`` is contiguous."""
        self._limit_threads()
        (a, order_a, step_a), (b, order_b, step_b) = _factor(a), _factor(b)
        (n, m), k = out.shape[-2:], a.shape[-1]
        if out.ndim == 2:
            factors = (a.ctypes.data, step_a, b.ctypes.data, step_b, add, out.ctypes.data, m)
            self._functions["", out.dtype](ROW_MAJOR, order_a, order_b, n, m, k, 1.0, *factors)
            return
        stacks = [_offsets(x.shape[:-2], x.strides[:-2]) + x.ctypes.data for x in (a, b, out)]
        of_a, of_b, of_y = (stack.ctypes.data for stack in stacks)
        one, other = map(byref, map(PREFIXES[out.dtype][1], (1.0, add)))
        order_a, order_b = map(byref, map(c_int, (order_a, order_b)))
        n, m, k, step_a, step_b, count = map(byref, map(c_int64, (n, m, k, step_a, step_b, len(stacks[2]))))
        factors = (one, of_a, step_a, of_b, step_b, other, of_y, m)
        self._functions["_batch", out.dtype](ROW_MAJOR, order_a, order_b, n, m, k, *factors, 1, count)

    def pack(self, b: np.ndarray) -> np.ndarray:
        """A copy of a right factor, (k, m), in the library's own layout, for `packed_matmul`; its bytes."""
        (k, m), size = b.shape, self.packed_size(b.shape, b.dtype)
        packed = np.empty(size + ALIGNMENT, np.uint8)
        packed, (b, order, step) = packed[-packed.ctypes.data % ALIGNMENT :][:size], _factor(b)
        source = (b.ctypes.data, step, packed.ctypes.data)
        self._functions["_pack", b.dtype](ROW_MAJOR, RIGHT_FACTOR, order, 1, m, k, 1.0, *source)
        return packed

    def packed_size(self, shape: tuple[int, int], dtype: np.dtype) -> int:
        """Bytes of a packed matrix, work space included."""
        return self._functions["_pack_get_size", np.dtype(dtype)](RIGHT_FACTOR, 1, *reversed(shape))

    def packed_matmul(self, a: np.ndarray, packed: np.ndarray, m: int) -> np.ndarray:
        """a b, (n, k) and (k, m) to (n, m), for a packed b"""
        self._limit_threads()
        (n, k), out, (a, order, step) = a.shape, np.empty((len(a), m), a.dtype), _factor(a)
        factors = (a.ctypes.data, step, packed.ctypes.data, m, 0.0, out.ctypes.data, m)
        self._functions["_compute", a.dtype](ROW_MAJOR, order, PACKED, n, m, k, *factors)
        return out

    def _limit_threads(self) -> None:
        """As many threads as NumPy's BLAS has now, for this thread's products: fewer within `limited_blas_threads`."""
        self._set_threads(blas_threads() or core_count())


def _factor(x: np.ndarray) -> tuple[np.ndarray, int, int]:
    """x, or a copy if neither rows nor columns are contiguous; how it lies in memory; elements from one to the next."""
    row, column = (stride // x.itemsize for stride in x.strides[-2:])
    if column == 1 and row >= x.shape[-1]:
        return x, PLAIN, row
    if row == 1 and column >= x.shape[-2]:
        return x, TRANSPOSED, column
    return np.ascontiguousarray(x), PLAIN, x.shape[-1]


@lru_cache(1 << 12)
def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Bytes from the first matrix of a stack to each."""
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
    for dtype, stack, flip in itertools.product(PREFIXES, ((), (2, 3)), (False, True)):
        a, b, start = (rng.standard_normal((*stack, *shape)).astype(dtype) for shape in ((9, 33), (33, 70), (9, 70)))
        b = b.swapaxes(-1, -2).copy().swapaxes(-1, -2) if flip else b
        results = [np.empty(start.size + offset, dtype)[offset:].reshape(start.shape) for offset in (0, 1)]
        for memory in results:
            memory[...] = start
            library.matmul(a, b, memory, True)
        packed = [] if stack else [library.packed_matmul(a, library.pack(b), b.shape[1]) + start]
        is_close = np.allclose([*results, *packed], a @ b + start, *[1e3 * np.finfo(dtype).eps] * 2)
        if not is_close or results[0].tobytes() != results[1].tobytes():
            raise BackendError(f"its products of {dtype} must be those of NumPy, each time with the same bits")
