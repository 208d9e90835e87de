"""Gradient clipping by norm (the paper trains without it)."""

from __future__ import annotations

import math

import numpy as np

from minitransformer.backend import Array, get_array_module


def gradient_norm(grad: Array) -> float | Array:
    """||grad|| of the whole gradient vector: one dot product. On a GPU it stays there: nobody waits for it."""
    square = grad @ grad
    xp = get_array_module(grad)
    return math.sqrt(float(square)) if xp is np else xp.sqrt(square)


def clip_gradient_norm(grad: Array, max_norm: float) -> float | Array:
    """Shorten ``grad`` in place to ``max_norm`` if it is longer; 0 means never. Returns the norm before."""
    norm = gradient_norm(grad)
    if max_norm > 0.0:
        if not isinstance(norm, float):
            grad *= get_array_module(grad).minimum(max_norm / norm, 1.0)
        elif norm > max_norm:
            grad *= max_norm / norm
    return norm
