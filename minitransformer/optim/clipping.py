"""Gradient clipping by norm (the paper trains without it)."""

import math

from minitransformer.backend import Array, get_array_module
from minitransformer.kernels import fused_function


def gradient_norm(grad: Array) -> float | Array:
    """||grad|| of the whole gradient vector: one dot product. On a GPU it stays there, without synchronization."""
    xp = get_array_module(grad)
    sum_of_squares = fused_function("sum_of_squares", xp)
    if sum_of_squares is not None:
        return xp.sqrt(sum_of_squares(grad))
    return math.sqrt(float(grad @ grad))


def clip_gradient_norm(grad: Array, max_norm: float) -> float | Array:
    """Scale ``grad`` in place to ``max_norm`` if its norm is larger; 0 means never. Returns the norm before."""
    norm = gradient_norm(grad)
    if max_norm > 0.0:
        if not isinstance(norm, float):
            grad *= get_array_module(grad).minimum(max_norm / norm, 1.0).astype(grad.dtype)
        elif norm > max_norm:
            grad *= max_norm / norm
    return norm
