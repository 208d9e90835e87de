"""Matrix products on the CPU: NumPy's BLAS, or the library that `product_table` has found faster for this shape."""

import os
import weakref
from threading import Lock

import numpy as np

from minitransformer.blas import lend_blas_threads
from minitransformer.kernels.numpy import product_table
from minitransformer.kernels.numpy.cblas import PREFIXES
from minitransformer.kernels.numpy.libraries import load
from minitransformer.kernels.numpy.product_table import Table

_LOCK = Lock()
_in_force: list[Table] = []
"""The table of this process, from its first product on."""

_packed: dict[tuple[int, bool, str], np.ndarray] = {}
"""Right factors by the identity of the parameter, whether it is transposed, and in the layout of which library."""


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


def packed_matmul(a: np.ndarray, parameter: np.ndarray, *, transpose: bool = False) -> np.ndarray | None:
    """y = a W or, with transpose, a W^T, (n, k) to (n, m), by a copy of W in the layout of the library that
    multiplies; None where that does not gain.

    The copy is made once, and only of a parameter that is read-only (`ParameterVector.freeze`): it would not follow an
    update.
    """
    name = table_in_force().get(f"packed, {product_table.rows_class(len(a))}")
    if name is None or parameter.flags.writeable:
        return None
    weight, key = parameter.T if transpose else parameter, (id(parameter), transpose, name)
    if not _fits(a, weight, None):
        return None
    if key not in _packed:
        lend_blas_threads(True)  # of a model that only translates all products are that library's
        _packed[key] = load(name).pack(weight)
        weakref.finalize(parameter, _packed.pop, key, None)
    return load(name).packed_matmul(a, _packed[key], weight.shape[1])


def packed_bytes() -> int:
    """Memory of all packed copies."""
    return sum(copy.nbytes for copy in _packed.values())
