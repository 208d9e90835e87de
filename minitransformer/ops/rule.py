"""The one shape of every op: two plain functions on arrays and one line that pairs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A forward function and its backward.

    ``forward(*inputs, **options)`` returns ``(y, saved)``; ``y`` may be a tuple of outputs.
    ``backward(grad_y, saved)`` returns a tuple with one gradient per positional input
    (several outputs: one ``grad_y`` argument each, before ``saved``; ``None`` if that output was not used).

    Positional inputs are differentiable, keyword-only options are not.

    Attributes:
        name: the word that finds rule, functions, module, twin and test.
        measures: how many of the last outputs are measurements only. They carry no gradient.
        inference_forward: a forward for when nothing is recorded, if that can save work; same ``y``, no ``saved``.
    """

    name: str
    forward: Callable
    backward: Callable
    n_non_differentiable: int = 0
    inference_forward: Callable | None = None
