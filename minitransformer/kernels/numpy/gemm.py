"""Matrix products on the CPU: large ones are cut into panels, one for each thread."""

import weakref
from collections.abc import Callable

import numpy as np

from minitransformer.kernels.numpy import column_blocks
from minitransformer.workers import parallel_for

MANY = 1 << 25
"""Multiplications from which a second thread gains more than it costs to start (benchmarks/notes.md)."""

_copies: dict[int, dict[tuple[str, bool], np.ndarray]] = {}
"""Of frozen parameters, by their identity: the copies by layout, and by whether they are of the transpose."""


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
    if a.ndim == b.ndim == 2 and len(a) * b.size >= MANY:
        return _by_panels(a, b, out, add)
    if not add:
        return np.matmul(a, b, out=out)
    out += a @ b
    return out


def _by_panels(a: np.ndarray, b: np.ndarray, out: np.ndarray | None, add: bool) -> np.ndarray:
    """`matmul` of two matrices: panels of rows of y or, where those are longer, of columns."""
    by_rows = len(a) >= b.shape[1]
    y = np.empty((len(a), b.shape[1]), np.result_type(a, b)) if out is None else out

    def fill(panel: slice) -> None:
        left, right, result = (a[panel], b, y[panel]) if by_rows else (a, b[:, panel], y[:, panel])
        if add:
            result += left @ right
        else:
            np.matmul(left, right, out=result)

    parallel_for(fill, max(y.shape), is_large=True)
    return y


def freeze(array: np.ndarray) -> None:
    """Make it read-only, and let `packed_matmul` keep copies of it until it is freed, frozen anew or made writable."""
    array.flags.writeable = False
    _copies[id(array)] = {}
    weakref.finalize(array, _copies.pop, id(array), None)


def is_frozen(array: np.ndarray) -> bool:
    if array.flags.writeable:
        _copies.pop(id(array), None)
    return id(array) in _copies


def packed_matmul(a: np.ndarray, parameter: np.ndarray, *, transpose: bool = False) -> np.ndarray | None:
    """y = a W or, with transpose, a W^T, (n, k) to (n, m), by a copy of W in `column_blocks`; None where that gains
    nothing.

    The copy is made once, and only of a parameter that has been frozen: it would not follow an update.
    """
    weight = parameter.T if transpose else parameter
    if not is_frozen(parameter) or not column_blocks.fits(a, weight):
        return None
    return column_blocks.matmul(a, layout_copy(parameter, "blocks", column_blocks.column_blocks, transpose), weight)


def layout_copy(
    parameter: np.ndarray, layout: str, make: Callable[[np.ndarray], np.ndarray], transpose: bool = False
) -> np.ndarray:
    """A frozen parameter or, with transpose, its transpose, in the layout that ``make`` gives it; made once."""
    copies = _copies[id(parameter)]
    if (layout, transpose) not in copies:
        copies[layout, transpose] = make(parameter.T if transpose else parameter)
    return copies[layout, transpose]


def packed_bytes() -> int:
    """Memory of all packed copies."""
    return sum(copy.nbytes for copies in _copies.values() for copy in copies.values())
