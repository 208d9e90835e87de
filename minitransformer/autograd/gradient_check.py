"""``check_gradient``: is this backward the derivative of this forward? It is compared with central differences."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitransformer.autograd import checks
from minitransformer.autograd.tensor import Tensor
from minitransformer.errors import AutogradError
from minitransformer.ops.rule import Rule

STEP = 1e-5
"""A larger step increases the truncation error, a smaller one the rounding error: both are near 1e-10 here."""
TOLERANCE = 1e-6
ENTRIES = 3
"""Single entries of each input that are checked besides the random direction."""

Differentiable = Rule | tuple[Callable, Callable] | Callable[..., Any]


def check_gradient(function: Differentiable, *inputs: Any, tolerance: float = TOLERANCE, **options: Any) -> float:
    """Compare the gradient of f = <cotangent, y>, y = function(*inputs, **options), with central differences.

    <grad_x, direction>  against  (f(x + h direction) - f(x - h direction)) / 2h

    The cotangent is random. For each input x there is one random direction, and a few with a single entry.

    Args:
        function: a Rule, a pair (forward, backward) of the same form, or a function of tensors.
        inputs: the arrays by which it is differentiated, converted to float64 and read-only.
        tolerance: the largest relative error that is accepted; NaN never is.
        options: passed on by keyword.

    Returns:
        The largest relative error.

    Raises:
        AutogradError: a gradient is wrong, or forward or backward does not return what a Rule's must.
        ShapeError: a gradient does not have the shape of its input.
    """
    rule, largest = as_rule(function), 0.0
    for i, slopes in enumerate(directional_slopes(rule, *inputs, **options)):
        for numerical, analytic in slopes:
            error = relative_error(numerical, analytic)
            if not error <= tolerance:
                raise AutogradError(
                    f"{rule.name}: gradient of input {i} must have the slope {numerical:+.9g} of central differences "
                    f"along a random direction or entry, got {analytic:+.9g}, a relative error of {error:.1e}"
                )
            largest = max(largest, error)
    return largest


def directional_slopes(rule: Rule, *inputs: Any, **options: Any) -> list[list[tuple[float, float]]]:
    """For each input its (numerical, analytic) slopes: along a random direction, then along single random entries."""
    rng = np.random.default_rng(0)
    arrays = [read_only(np.array(x, dtype=np.float64)) for x in inputs]
    y, saved = checks.check_output_and_saved(rule.forward(*arrays, **options), rule.name)
    outputs = y if isinstance(y, tuple) else (y,)
    differentiable = outputs[: len(outputs) - rule.n_non_differentiable]
    cotangents = [read_only(rng.standard_normal(np.shape(part))) for part in differentiable]
    grads = rule.backward(*cotangents, *[None] * rule.n_non_differentiable, saved)
    checks.check_input_gradients(grads, [Tensor(x, requires_grad=True) for x in arrays], rule.name)

    def pull_back(*x: np.ndarray) -> float:
        y = rule.forward(*x, **options)[0]
        parts = y if isinstance(y, tuple) else (y,)
        return sum(float((g * part).sum()) for g, part in zip(cotangents, parts, strict=False))

    slopes: list[list[tuple[float, float]]] = []
    for i, (x, grad) in enumerate(zip(arrays, grads, strict=True)):
        slopes.append([])
        for direction in directions(x.shape, rng):
            ahead, behind = (pull_back(*arrays[:i], x + h * direction, *arrays[i + 1 :]) for h in (STEP, -STEP))
            slopes[i].append(((ahead - behind) / (2 * STEP), float((grad * direction).sum())))
    return slopes


def directions(shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A random direction, then at most ENTRIES directions that are 1 at one random entry and 0 elsewhere."""
    yield rng.standard_normal(shape)
    for entry in rng.permutation(math.prod(shape))[:ENTRIES]:
        single = np.zeros(math.prod(shape))
        single[entry] = 1.0
        yield single.reshape(shape)


def relative_error(numerical: float, analytic: float) -> float:
    """|numerical - analytic| / max(|numerical|, 1e-3): two slopes near zero agree."""
    return abs(numerical - analytic) / max(abs(numerical), 1e-3)


def as_rule(function: Differentiable) -> Rule:
    """``function`` in the form of a Rule, with the name of the function (for a pair, the backward's)."""
    if isinstance(function, Rule):
        return function
    is_pair = isinstance(function, tuple) and len(function) == 2
    if not is_pair and not callable(function):
        raise AutogradError(
            "check_gradient: function must be a Rule, a pair (forward, backward) or a function of tensors, "
            f"got {function}"
        )
    name = getattr(function[1] if is_pair else function, "__name__", "check_gradient")
    return Rule(name, *(function if is_pair else _by_tape(function, name)))


def _by_tape(function: Callable[..., Any], name: str) -> tuple[Callable, Callable]:
    """A function of tensors as a pair: the tape is its backward."""

    def forward(*arrays: np.ndarray, **options: Any) -> tuple[tuple, tuple]:
        leaves = [Tensor(array, requires_grad=True) for array in arrays]
        y = function(*leaves, **options)
        outputs = [each for each in (y if isinstance(y, tuple) else (y,)) if getattr(each, "requires_grad", False)]
        if not outputs:
            raise AutogradError(f"check_gradient: {name} must return a tensor that depends on its inputs")
        return tuple(each.data for each in outputs), (leaves, outputs)

    def backward(*cotangents_and_saved: Any) -> tuple:
        *cotangents, (leaves, outputs) = cotangents_and_saved
        products = ((y * grad).sum() for y, grad in zip(outputs, cotangents, strict=True))
        sum(products, start=Tensor(np.array(0.0))).backward()
        return tuple(np.zeros(leaf.shape) if leaf.grad is None else leaf.grad for leaf in leaves)

    return forward, backward


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, made read-only: a forward or backward that changes it in place raises an error there."""
    array.flags.writeable = False
    return array
