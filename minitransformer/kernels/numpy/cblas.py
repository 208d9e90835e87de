"""Matrix products by a library that has the CBLAS interface, called through ctypes: of two matrices or of two stacks of
them, as they lie in memory."""

import ctypes
import itertools
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from minitransformer.blas import blas_threads, core_count
from minitransformer.errors import BackendError

# Enumerations of cblas.h; the last two are oneMKL's.
ROW_MAJOR, PLAIN, TRANSPOSED, PACKED, RIGHT_FACTOR = 101, 111, 112, 151, 162
ALIGNMENT = 64  # bytes

PREFIXES = {np.dtype(np.float32): ("s", c_float), np.dtype(np.float64): ("d", c_double)}


@dataclass(frozen=True)
class Entry:
    """What must be known about a library to use it.

    title: its name in messages
    files: how the name of its file may begin in ``package``; without a package, what the system's loader is asked for
    function: the name of cblas_sgemm, with places for "s" or "d" and for what follows "gemm", such as "_batch"
    set_threads: the function that sets how many threads work on a product
    start: makes settings before the first product, and returns the version
    package: the Python package that brings it; the extra of setup.cfg that installs it has the name of the entry
    integer: the type of sizes
    batches, packs: whether it has cblas_sgemm_batch; cblas_sgemm_pack and its relatives
    """

    title: str
    files: tuple[str, ...]
    function: str
    set_threads: str
    start: Callable[[ctypes.CDLL], str]
    package: str | None = None
    integer: type = c_int64
    batches: bool = True
    packs: bool = False


class Library:
    """The library of ``entry`` in the file ``path``.

    Raises:
        OSError, AttributeError: it cannot be loaded, or lacks a function.
        BackendError: it cannot be used as it is.
    """

    def __init__(self, path: str, entry: Entry):
        library = ctypes.CDLL(path)
        self.entry, self.version, self._functions = entry, entry.start(library), {}
        self._set_threads = getattr(library, entry.set_threads)
        self._set_threads.argtypes, self._set_threads.restype = [c_int64], None
        for dtype, (prefix, number) in PREFIXES.items():
            for name, types in _argument_types(entry, number).items():
                function = self._functions[name, dtype] = getattr(library, entry.function.format(prefix, name))
                function.argtypes, function.restype = types, c_size_t if name == "_pack_get_size" else None

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
        sizes = (n, m, k, step_a, step_b, m, len(stacks[2]))
        n, m, k, step_a, step_b, step_y, count = map(byref, map(self.entry.integer, sizes))
        factors = (one, of_a, step_a, of_b, step_b, other, of_y, step_y)
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
        """As many threads as NumPy's BLAS has now: fewer within `limited_blas_threads`. In some libraries the number is
        the calling thread's own."""
        self._set_threads(blas_threads() or core_count())


def _argument_types(entry: Entry, number: type) -> dict[str, list[type]]:
    """Those of cblas_sgemm and its relatives, as far as the library has them, by what follows "gemm"."""
    sizes, matrix = [entry.integer] * 3, [c_void_p, entry.integer]
    types = {"": [*[c_int] * 3, *sizes, number, *matrix, *matrix, number, *matrix]}
    if entry.batches:
        types["_batch"] = [c_int, *[c_void_p] * 13, entry.integer, c_void_p]
    if entry.packs:
        types["_pack_get_size"] = [c_int, *sizes]
        types["_pack"] = [*[c_int] * 3, *sizes, number, *matrix, c_void_p]
        types["_compute"] = [*[c_int] * 3, *sizes, *matrix, *matrix, number, *matrix]
    return types


def _factor(x: np.ndarray) -> tuple[np.ndarray, int, int]:
    """x, or a copy if neither rows nor columns are contiguous; how it lies in memory; elements from one to the next."""
    row, column = (stride / x.itemsize for stride in x.strides[-2:])  # no whole number in a field of a record
    row, column = (int(each) if each.is_integer() else 0 for each in (row, column))
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


def check(library: Library) -> None:
    """Compare products of every kind with NumPy's, and with themselves for arrays that begin elsewhere in memory.

    Raises:
        BackendError: they differ.
    """
    rng = np.random.default_rng(0)
    stacks = ((), (2, 3)) if library.entry.batches else ((),)
    for dtype, stack, flip in itertools.product(PREFIXES, stacks, (False, True)):
        a, b, start = (rng.standard_normal((*stack, *shape)).astype(dtype) for shape in ((9, 33), (33, 70), (9, 70)))
        b = b.swapaxes(-1, -2).copy().swapaxes(-1, -2) if flip else b
        results = [np.empty(start.size + offset, dtype)[offset:].reshape(start.shape) for offset in (0, 1)]
        for memory in results:
            memory[...] = start
            library.matmul(a, b, memory, True)
        if library.entry.packs and not stack:
            results.append(library.packed_matmul(a, library.pack(b), b.shape[1]) + start)
        is_close = np.allclose(results, a @ b + start, *[1e3 * np.finfo(dtype).eps] * 2)
        if not is_close or results[0].tobytes() != results[1].tobytes():
            raise BackendError(f"its products of {dtype} must be those of NumPy, each time with the same bits")
