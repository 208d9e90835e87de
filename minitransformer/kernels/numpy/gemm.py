"""Matrix products on the CPU: large ones are shared by threads, and matrices that do not change are copied once."""

import weakref
from collections.abc import Callable

import numpy as np

from minitransformer.kernels.numpy import panels
from minitransformer.workers import parallel_for

MANY = 1 << 25
"""Number of multiplications from which a second thread gains more than it costs to start (benchmarks/notes.md)."""

cached_copies: dict[int, dict[tuple[Callable, bool], np.ndarray]] = {}
"""Copies of arrays that are prepared for inference: by the identity of the array, then by the function that made the
copy and whether it is one of the transpose."""


def matmul(
    a: np.ndarray,
    b: np.ndarray,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: np.ndarray | None = None,
    add: bool = False,
) -> np.ndarray:
    """y = a b, or with ``add`` y = out + a b

    a: (..., n, k), or (..., k, n) with transpose_a   b: (..., k, m), or (..., m, k) with transpose_b
    y: (..., n, m), in ``out`` if it is given
    """
    a, b = a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    if a.ndim == b.ndim == 2 and max(2, len(a)) * b.size >= MANY:  # one row takes the time of reading b, as two do
        return _in_threads(a, b, out, add)
    if not add:
        return np.matmul(a, b, out=out)
    out += a @ b
    return out


def _in_threads(a: np.ndarray, b: np.ndarray, out: np.ndarray | None, add: bool) -> np.ndarray:
    """`matmul` of two matrices: each thread has some rows of y or, where those are longer, some columns."""
    by_rows = len(a) >= b.shape[1]
    y = np.empty((len(a), b.shape[1]), np.result_type(a, b)) if out is None else out

    def fill(part: slice) -> None:
        left, right, result = (a[part], b, y[part]) if by_rows else (a, b[:, part], y[:, part])
        if add:
            result += left @ right
        else:
            np.matmul(left, right, out=result)

    parallel_for(fill, max(y.shape), is_large=True)
    return y


def prepare_for_inference(array: np.ndarray) -> None:
    """Make an array read-only. Kernels may keep copies until it is freed, prepared again or made writable."""
    array.flags.writeable = False
    cached_copies[id(array)] = {}
    weakref.finalize(array, cached_copies.pop, id(array), None)


def is_prepared(array: np.ndarray) -> bool:
    if array.flags.writeable:
        cached_copies.pop(id(array), None)
    return id(array) in cached_copies


def packed_matmul(a: np.ndarray, parameter: np.ndarray, *, transpose: bool = False) -> np.ndarray | None:
    """y = a W or, with transpose, a W^T, (n, k) to (n, m), with a copy of W in panels; None where that gains nothing.

    The copy is made once, and only of a parameter that is prepared for inference: it would not follow an update.
    """
    weight = parameter.T if transpose else parameter
    if not is_prepared(parameter) or not panels.fits(a, weight):
        return None
    return panels.matmul(a, cached_copy(parameter, panels.cut_into_panels, transpose), weight)


def cached_copy(parameter: np.ndarray, make: Callable[[np.ndarray], np.ndarray], transpose: bool = False) -> np.ndarray:
    """What ``make`` returns for a prepared parameter or, with transpose, its transpose; made once."""
    copies = cached_copies[id(parameter)]
    if (make, transpose) not in copies:
        copies[make, transpose] = make(parameter.T if transpose else parameter)
    return copies[make, transpose]
