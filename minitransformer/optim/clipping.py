"""Gradient clipping by norm (the paper trains without it)."""

import math

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels import fused_function


def clip_gradient_norm(grad: Array, max_norm: float) -> float:
    """grad = grad * min(1, max_norm / ||grad||), in place, unless max_norm is 0; returns the norm before.

    A norm that is infinite or overflows makes finite gradients 0; such an update should be skipped.
    """
    sum_of_squares = fused_function("sum_of_squares", get_array_module(grad))
    norm = math.sqrt(float(sum_of_squares(grad) if sum_of_squares else grad @ grad))  # grad @ grad: one dot product
    if 0.0 < max_norm < norm:
        grad *= max_norm / norm
    return norm
