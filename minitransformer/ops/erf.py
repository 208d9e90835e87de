"""The error function, from which GELU is built  [Hendrycks and Gimpel 2016]."""

import math

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule

STEP = 0.5
SQUARES = [((k + 0.5) * STEP) ** 2 for k in range(12)]  # t^2 at the midpoints; e^(-t^2) is below rounding beyond them


def erf_forward(x: Array) -> tuple[Array, tuple]:
    """y = erf x = 2 / sqrt(pi) * integral of e^(-t^2) from 0 to x      [Hunter and Regan 1972]

    1 - erf x = 2x / pi * e^(-x^2) * integral of e^(-t^2) / (t^2 + x^2) from 0 to infinity. The sum over midpoints is
    this integral up to the pole at t = ix, which adds 1 - tanh(pi x / step): exact but for rounding.
    """
    xp = get_array_module(x)
    x = xp.clip(x, -10.0, 10.0)  # beyond 6 the result is 1 anyhow
    square = x * x
    bell = xp.exp(-square)
    integral = sum(STEP * math.exp(-t) / (t + square) for t in SQUARES)
    return xp.tanh(x * (math.pi / STEP)) - x * (2.0 / math.pi) * bell * integral, (bell,)


def erf_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y * 2 / sqrt(pi) * e^(-x^2)"""
    (bell,) = saved
    return (grad_y * (2.0 / math.sqrt(math.pi)) * bell,)


erf = Rule("erf", erf_forward, erf_backward)
