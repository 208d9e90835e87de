"""Gradient clipping by norm (the paper trains without it)."""

import math

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels import fused_function


def clip_gradient_norm(grad: Array, max_norm: float) -> float | Array:
    """Scale ``grad`` in place to ``max_norm`` if its norm ||grad|| is larger; 0 means never. Returns the norm before.

    On a GPU the norm stays there, without synchronization.
    """
    xp = get_array_module(grad)
    sum_of_squares = fused_function("sum_of_squares", xp)
    if sum_of_squares is not None:
        norm = xp.sqrt(sum_of_squares(grad))
        if max_norm > 0.0:
            grad *= xp.minimum(max_norm / norm, 1.0).astype(grad.dtype)
    else:
        norm = math.sqrt(float(grad @ grad))  # one dot product
        if 0.0 < max_norm < norm:
            grad *= max_norm / norm
    return norm
