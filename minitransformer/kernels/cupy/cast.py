"""Casts between the dtype of parameters and that of activations."""

from typing import Any

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels.cupy.launch import check_arrays, fits_vec16, launch_groups, name_of
from minitransformer.kernels.precision import compute_dtype


def cast_parameter(parameter: Array, dtype: Any) -> Array:
    """``parameter`` as an array of ``dtype``: itself if it has that type, else a copy  [Micikevicius et al. 2018, sec.
    3.1: products in half precision, of parameters that stay in float32]"""
    return parameter if parameter.dtype == dtype else scaled_copy(parameter, None, dtype)


def scaled_copy(x: Array, factor: Array | None, dtype: Any) -> Array:
    """factor * x, of ``dtype``; factor: a scalar on the device, None is 1

    Raises:
        ShapeError: x does not have the dtype of parameters and sums for activations of ``dtype``.
    """
    check_arrays(f"a parameter beside {name_of(dtype)}", x.shape, compute_dtype(dtype), x)
    xp, n = get_array_module(x), x.size
    x = xp.ascontiguousarray(x)
    y = xp.empty(x.shape, dtype)
    launch_groups("cast", "cast", 1, n, (x, factor, y, n, fits_vec16(n, x, y)), y.dtype)
    return y
