"""Casts between the dtype of parameters and that of activations."""

from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import address, fits_vec16, launch_groups
from minitransformer.kernels.precision import current


class HalfCopy:
    """The vector of all parameters in half precision, written by one kernel when the first of them is asked for."""

    def __init__(self, vector: Array):
        self._vector, self._copy = vector, None

    def of(self, parameter: Array, dtype: Any) -> Array | None:
        """The copy of ``parameter``; None if it is not a contiguous part of the vector."""
        vector = self._vector
        start = (address(parameter) - address(vector)) // vector.itemsize
        is_part = 0 <= start <= len(vector) - parameter.size and parameter.dtype == vector.dtype
        if not is_part or not parameter.flags.c_contiguous:
            return None
        if self._copy is None:
            self._copy = scaled_copy(vector, None, dtype)
        return self._copy[start : start + parameter.size].reshape(parameter.shape)


def cast_parameter(parameter: Array, dtype: Any) -> Array:
    """``parameter`` as an array of ``dtype``: itself if it has that type, else a copy: part of the one in force."""
    if parameter.dtype == dtype:
        return parameter
    copy = current.get().half_copy
    found = None if copy is None else copy.of(parameter, dtype)
    return scaled_copy(parameter, None, dtype) if found is None else found


def scaled_copy(x: Array, factor: Array | None, dtype: Any, out: Array | None = None, add: bool = False) -> Array:
    """factor * x, of ``dtype``; factor: a scalar on the device, None is 1

    out: where to write, may be x   add: to what is in ``out``
    """
    xp, n = get_array_module(x), x.size
    x = xp.ascontiguousarray(x)
    if out is None:
        out = xp.empty(x.shape, dtype)
    launch_groups("cast", "cast", 1, n, (x, factor, out, n, add, fits_vec16(n, x, out)), out.dtype)
    return out
