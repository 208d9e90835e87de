"""Gradient clipping by norm (the paper trains without it)."""

from __future__ import annotations

import math

from minitransformer.backend import Array


def gradient_norm(grad: Array) -> float:
    """||grad|| of the whole gradient vector: one dot product."""
    return math.sqrt(float(grad @ grad))


def clip_gradient_norm(grad: Array, max_norm: float) -> float:
    """Shorten ``grad`` in place to ``max_norm`` if it is longer; 0 means never. Returns the norm before."""
    norm = gradient_norm(grad)
    if 0.0 < max_norm < norm:
        grad *= max_norm / norm
    return norm
