"""``check_gradient``: is this backward the derivative of this forward? And gradients by way of the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.ops.rule import Rule

STEP = 1e-5
"""A larger step adds the error of the curve, a smaller one that of rounding: both are near 1e-10 here."""
TOLERANCE = 1e-6


def check_gradient(rule: Rule | tuple[Callable, Callable], *inputs: Any, **options: Any) -> None:
    """Compare <grad_x, direction> with (f(x + h direction) - f(x - h direction)) / 2h, where f = <cotangent, y>.

    Cotangent and direction are random. One line is printed; where it fails, the line names the inputs that are wrong.

    Args:
        rule: a Rule, or a pair (forward, backward) of the same form: forward gives (y, saved), backward a tuple.
        inputs: the arrays that gradients are wanted for; they are taken as float64.
        options: what forward takes by keyword.
    """
    name = rule.name if isinstance(rule, Rule) else getattr(rule[1], "__name__", "backward")
    slopes = directional_slopes(rule, *inputs, **options)
    numerical, analytic = (sum(pair[side] for pair in slopes) for side in (0, 1))
    wrong = [str(i) for i, pair in enumerate(slopes) if relative_error(*pair) > TOLERANCE]
    verdict = f"WRONG in input {', '.join(wrong)} (counted from 0)" if wrong else "right"
    error = max(relative_error(*pair) for pair in slopes)
    print(f"{name}: numerical {numerical:+.9f}, analytic {analytic:+.9f}, relative error {error:.1e}: {verdict}")


def directional_slopes(rule: Rule | tuple[Callable, Callable], *inputs: Any, **options: Any) -> list[tuple]:
    """(numerical, analytic) slope for each input, along one random direction each."""
    forward, backward = (rule.forward, rule.backward) if isinstance(rule, Rule) else rule
    measures = rule.measures if isinstance(rule, Rule) else 0
    rng = np.random.default_rng(0)
    arrays = [np.asarray(x, dtype=np.float64) for x in inputs]
    y, saved = forward(*arrays, **options)
    outputs = y if isinstance(y, tuple) else (y,)
    cotangents = [rng.standard_normal(np.shape(part)) for part in outputs[: len(outputs) - measures]]
    grads = backward(*cotangents, *[None] * measures, saved)

    def pulled(*x: np.ndarray) -> float:
        y = forward(*x, **options)[0]
        parts = y if isinstance(y, tuple) else (y,)
        return sum(float((g * part).sum()) for g, part in zip(cotangents, parts, strict=False))

    slopes = []
    for i, (x, grad) in enumerate(zip(arrays, grads, strict=True)):
        direction = rng.standard_normal(x.shape)
        ahead, behind = (pulled(*arrays[:i], x + sign * STEP * direction, *arrays[i + 1 :]) for sign in (1, -1))
        slopes.append(((ahead - behind) / (2 * STEP), float((grad * direction).sum())))
    return slopes


def relative_error(numerical: float, analytic: float) -> float:
    """|numerical - analytic| / |numerical|, with a floor: two slopes of nearly zero agree."""
    return abs(numerical - analytic) / max(abs(numerical), 1e-3)


def gradients_by_tape(function: Callable[..., Tensor], grad_y: np.ndarray, *inputs: np.ndarray) -> tuple:
    """The gradients of <grad_y, function(*tensors)>: what an exercise's hand-written backward must return."""
    tensors = [Tensor(np.array(x, dtype=np.float64), requires_grad=True) for x in inputs]
    function(*tensors).backward(grad_y)
    return tuple(tensor.grad for tensor in tensors)
