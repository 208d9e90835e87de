"""``check_gradient``: is this backward the derivative of this forward? And gradients by way of the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course.calls import NotFilledIn, Trouble, called_with_care, is_unfilled
from course.compare import form_error, kind
from minitransformer.autograd import Tensor
from minitransformer.ops.rule import Rule

STEP = 1e-5
"""A larger step adds the error of the curve, a smaller one that of rounding: both are near 1e-10 here."""
TOLERANCE = 1e-6
SECONDS = 30.0
"""Time limit of one check."""


def check_gradient(rule: Rule | tuple[Callable, Callable], *inputs: Any, **options: Any) -> None:
    """Compare <grad_x, direction> with (f(x + h direction) - f(x - h direction)) / 2h, where f = <cotangent, y>.

    Cotangent and direction are random. One line is printed; where it fails, the line names the inputs that are wrong.

    Args:
        rule: a Rule, or a pair (forward, backward) of the same form: forward gives (y, saved), backward a tuple.
        inputs: the arrays that gradients are wanted for; they are taken as float64.
        options: what forward takes by keyword.
    """
    try:
        name = rule.name if isinstance(rule, Rule) else getattr(rule[1], "__name__", "backward")
        slopes = called_with_care(lambda: directional_slopes(rule, *inputs, **options), SECONDS)
    except NotFilledIn:
        return print(f"{name}: not yet")
    except Trouble as trouble:
        return print(f"{name}: WRONG. {trouble}")
    except (TypeError, LookupError):
        return print("check_gradient: its first argument is a Rule, or a pair (forward, backward).")
    if not slopes:
        return print(f"{name}: not yet. Give check_gradient the arrays that gradients are wanted for.")
    numerical, analytic = (sum(pair[side] for pair in slopes) for side in (0, 1))
    wrong = [str(i) for i, pair in enumerate(slopes) if not relative_error(*pair) <= TOLERANCE]  # NaN is wrong
    verdict = f"WRONG in input {', '.join(wrong)} (counted from 0)" if wrong else "right"
    error = max(relative_error(*pair) for pair in slopes)
    print(f"{name}: numerical {numerical:+.9f}, analytic {analytic:+.9f}, relative error {error:.1e}: {verdict}")


def directional_slopes(rule: Rule | tuple[Callable, Callable], *inputs: Any, **options: Any) -> list[tuple]:
    """(numerical, analytic) slope for each input, along one random direction each."""
    forward, backward = (rule.forward, rule.backward) if isinstance(rule, Rule) else rule
    n_non_differentiable = rule.n_non_differentiable if isinstance(rule, Rule) else 0
    rng = np.random.default_rng(0)
    arrays = [fixed(np.array(x, dtype=np.float64)) for x in inputs]
    y, saved = forward(*arrays, **options)
    outputs = y if isinstance(y, tuple) else (y,)
    cotangents = [fixed(rng.standard_normal(np.shape(part))) for part in outputs[: len(outputs) - n_non_differentiable]]
    grads = one_for_each(arrays, backward(*cotangents, *[None] * n_non_differentiable, saved))

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


def fixed(array: np.ndarray) -> np.ndarray:
    """The array, closed to changes in place: a forward or a backward that tries raises an error there."""
    array.flags.writeable = False
    return array


def one_for_each(arrays: list[np.ndarray], grads: Any) -> tuple:
    """The gradients, if there is one of the right shape for each input.

    Raises:
        Trouble: there is not.
    """
    if is_unfilled(grads):
        raise NotFilledIn
    if not isinstance(grads, (tuple, list)) or len(grads) != len(arrays):
        raise Trouble(f"The backward must return a tuple of {len(arrays)}, a gradient per input; got {kind(grads)}.")
    for i, (x, grad) in enumerate(zip(arrays, grads, strict=True)):
        error = form_error(x, grad, f"the gradient of input {i} (counted from 0)")
        if error:
            raise Trouble(f"{error[0].upper()}{error[1:]}.")
    return tuple(grads)


def relative_error(numerical: float, analytic: float) -> float:
    """|numerical - analytic| / |numerical|, with a floor: two slopes of nearly zero agree."""
    return abs(numerical - analytic) / max(abs(numerical), 1e-3)


def gradients_by_tape(function: Callable[..., Tensor], grad_y: np.ndarray, *inputs: np.ndarray) -> tuple:
    """The gradients of <grad_y, function(*tensors)>: what an exercise's hand-written backward must return."""
    tensors = [Tensor(np.array(x, dtype=np.float64), requires_grad=True) for x in inputs]
    function(*tensors).backward(grad_y)
    return tuple(tensor.grad for tensor in tensors)
