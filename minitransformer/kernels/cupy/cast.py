"""Casts between the dtype of parameters and that of activations."""

from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import THREADS, blocks_for, fits_vec16, groups_of_8, launch


def cast_parameter(parameter: Array, dtype: Any) -> Array:
    """``parameter`` as an array of ``dtype``: a copy, or itself if it has that type."""
    return parameter if parameter.dtype == dtype else scaled_copy(parameter, None, dtype)


def scaled_copy(x: Array, factor: Array | None, dtype: Any, out: Array | None = None) -> Array:
    """factor * x, of ``dtype``; factor: a scalar on the device, None is 1   out: where to write, may be x"""
    x = get_array_module(x).ascontiguousarray(x)
    if out is None:
        out = get_array_module(x).empty(x.shape, dtype)
    n = x.size
    launch(
        "cast", "cast", blocks_for(groups_of_8(1, n)), (THREADS,), (x, factor, out, n, fits_vec16(n, x, out)), out.dtype
    )
    return out
