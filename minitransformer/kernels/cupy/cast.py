"""Casts between the dtype of parameters and that of activations."""

from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import fits_vec16, launch_groups


def cast_parameter(parameter: Array, dtype: Any) -> Array:
    """``parameter`` as an array of ``dtype``: a copy, or itself if it has that type."""
    return parameter if parameter.dtype == dtype else scaled_copy(parameter, None, dtype)


def scaled_copy(x: Array, factor: Array | None, dtype: Any, out: Array | None = None) -> Array:
    """factor * x, of ``dtype``; factor: a scalar on the device, None is 1   out: where to write, may be x"""
    xp, n = get_array_module(x), x.size
    x = xp.ascontiguousarray(x)
    if out is None:
        out = xp.empty(x.shape, dtype)
    launch_groups("cast", "cast", 1, n, (x, factor, out, n, fits_vec16(n, x, out)), out.dtype)
    return out
