"""Casts between the dtype of parameters and that of activations."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import address, fits_vec16, launch_groups
from minitransformer.kernels.precision import current


class HalfCopy:
    """The vector of all parameters in half precision, written by one kernel when the first of them is asked for.

    Within ``kept()`` all losses read the same copy, and Adam's kernel writes it together with the parameters, which
    stay in float32  [Micikevicius et al. 2018, sec. 3.1].

    Attributes:
        vector: the parameters.
        array: the copy; None as long as no parameter has been asked for.
    """

    def __init__(self, vector: Array):
        self.vector, self.array = vector, None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A block in which only `Adam.step` may write parameters: losses do not see what anything else writes."""
        token = current.set(current.get()._replace(kept=self))
        try:
            yield
        finally:
            current.reset(token)

    def of(self, parameter: Array, dtype: Any) -> Array | None:
        """The copy of ``parameter``; None if it is not a contiguous part of the vector."""
        vector = self.vector
        start = (address(parameter) - address(vector)) // vector.itemsize
        is_part = 0 <= start <= len(vector) - parameter.size and parameter.dtype == vector.dtype
        if not is_part or not parameter.flags.c_contiguous:
            return None
        if self.array is None or self.array.dtype != dtype:
            self.array = scaled_copy(vector, None, dtype)
        return self.array[start : start + parameter.size].reshape(parameter.shape)


def kept_copy(vector: Array | None) -> HalfCopy | None:
    """The copy of this vector that is kept in the block in force, if there is one"""
    copy = current.get().kept
    return copy if copy is not None and copy.vector is vector else None


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
