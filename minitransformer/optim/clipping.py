"""Gradient clipping by norm (the paper trains without it)."""

import math

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels import fused_function


def clip_gradient_norm(grad: Array, max_norm: float) -> float:
    """Scale ``grad`` in place to ``max_norm`` if its norm ||grad|| is larger; 0 means never.

    Returns the norm before.
    """
    sum_of_squares = fused_function("sum_of_squares", get_array_module(grad))
    norm = math.sqrt(float(sum_of_squares(grad) if sum_of_squares else grad @ grad))  # grad @ grad: one dot product
    if 0.0 < max_norm < norm:
        grad *= max_norm / norm
    return norm
