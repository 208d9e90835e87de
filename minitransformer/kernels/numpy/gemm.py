"""Matrix products on the CPU: NumPy's BLAS, or the library that `product_table` has found faster for this shape."""

import os
import weakref
from collections.abc import Callable
from threading import Lock

import numpy as np

from minitransformer.blas import lend_blas_threads
from minitransformer.kernels.numpy import column_blocks, product_table
from minitransformer.kernels.numpy.cblas import PREFIXES
from minitransformer.kernels.numpy.libraries import load
from minitransformer.kernels.numpy.product_table import Table

_LOCK = Lock()
_in_force: list[Table] = []
"""The table of this process, from its first product on."""

_copies: dict[int, dict[tuple[str, bool], np.ndarray]] = {}
"""Of frozen parameters, by their identity: the copies by layout, and by whether they are of the transpose."""


def use_table(table: Table | None) -> Table:
    """Multiply by this table from now on, or by this machine's own: if it is None, or MINITRANSFORMER_BLAS is set.
    Returns the one that is used: an empty one where its library is missing."""
    table = (
        product_table.machine_table()[0]
        if table is None or os.environ.get(product_table.VARIABLE)
        else product_table.checked(table)
    )
    lend_blas_threads(not all(map(product_table.is_packed, table)))
    _in_force[:] = [table]
    return table


def table_in_force() -> Table:
    """What this process multiplies by: that of `use_table` or else, from the first call on, this machine's own."""
    if not _in_force:
        with _LOCK:
            return _in_force[0] if _in_force else use_table(None)
    return _in_force[0]


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
    table = table_in_force()
    if table and _fits(a, b, out):
        name = product_table.class_of(*a.shape, b.shape[-1]) if a.ndim == 2 else "batched"
        if name in table:
            y = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype) if out is None else out
            load(table[name]).matmul(a, b, y, add)
            return y
    if not add:
        return a @ b if out is None else np.matmul(a, b, out=out)
    out += a @ b
    return out


def _fits(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> bool:
    """Whether another library can form this product; what else NumPy can, and its errors, are left to NumPy."""
    return (
        type(a) is type(b) is np.ndarray
        and a.dtype == b.dtype
        and a.dtype in PREFIXES
        and a.ndim == b.ndim >= 2
        and a.shape[:-2] == b.shape[:-2]
        and a.shape[-1] == b.shape[-2]
        and a.size > 0
        and b.size > 0
        and (
            out is None or (out.dtype, out.shape) == (a.dtype, (*a.shape[:-1], b.shape[-1])) and out.flags.c_contiguous
        )
    )


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
    """y = a W or, with transpose, a W^T, (n, k) to (n, m), by a copy of W in the layout that multiplies fastest: that
    of the library that multiplies, or `column_blocks` for NumPy's; None where neither gains.

    The copy is made once, and only of a parameter that has been frozen: it would not follow an update.
    """
    if not is_frozen(parameter):
        return None
    weight, table = parameter.T if transpose else parameter, table_in_force()
    name = table.get(f"packed, {product_table.rows_class(len(a))}") if table else None
    if name is not None and _fits(a, weight, None):
        packed = layout_copy(parameter, name, lambda matrix: _pack(matrix, name), transpose)
        return load(name).packed_matmul(a, packed, weight.shape[1])
    if column_blocks.fits(a, weight):
        return column_blocks.matmul(a, layout_copy(parameter, "blocks", column_blocks.column_blocks, transpose), weight)
    return None


def layout_copy(
    parameter: np.ndarray, layout: str, make: Callable[[np.ndarray], np.ndarray], transpose: bool = False
) -> np.ndarray:
    """A frozen parameter or, with transpose, its transpose, in the layout that ``make`` gives it; made once."""
    copies = _copies[id(parameter)]
    if (layout, transpose) not in copies:
        copies[layout, transpose] = make(parameter.T if transpose else parameter)
    return copies[layout, transpose]


def _pack(weight: np.ndarray, name: str) -> np.ndarray:
    lend_blas_threads(True)  # of a model that only translates all products are that library's
    return load(name).pack(weight)


def packed_bytes() -> int:
    """Memory of all packed copies."""
    return sum(copy.nbytes for copies in _copies.values() for copy in copies.values())
