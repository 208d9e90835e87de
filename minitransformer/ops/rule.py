"""The form of every op: two plain functions on arrays and one line that pairs them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A forward function and its backward.

    ``forward(*inputs, **options)`` returns ``(y, saved)``; ``y`` may be a tuple of outputs, ``saved`` is a tuple.
    ``backward(grad_y, saved)`` returns a tuple with one gradient per positional input
    (several outputs: one ``grad_y`` argument each, before ``saved``; ``None`` if an output was not used).

    Positional inputs are differentiable, keyword-only options are not.
    Neither function may change its inputs or ``grad_y`` in place: other rules may have been given the same arrays.

    Attributes:
        name: shared by the rule, its two functions, its kernels and its tests.
        n_non_differentiable: how many of the last outputs carry no gradient, such as a metric beside the loss.
        inference_forward: used when nothing is recorded, if that saves work; returns the same ``y``, without ``saved``.
    """

    name: str
    forward: Callable
    backward: Callable
    n_non_differentiable: int = 0
    inference_forward: Callable | None = None
