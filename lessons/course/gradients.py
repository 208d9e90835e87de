"""``check_gradient``: is this backward the derivative of this forward? And gradients by way of the tape."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from course.calls import NotFilledIn, Trouble, called_with_care, is_unfilled
from course.compare import form_error, kind
from minitransformer.autograd import Tensor
from minitransformer.autograd.gradient_check import TOLERANCE, as_rule, directional_slopes, relative_error
from minitransformer.ops.rule import Rule

SECONDS = 30.0
"""Time limit of one check."""


def check_gradient(rule: Rule | tuple[Callable, Callable], *inputs: Any, **options: Any) -> None:
    """Compare <grad_x, direction> with (f(x + h direction) - f(x - h direction)) / 2h, where f = <cotangent, y>.

    Cotangent and direction are random. One line is printed; where it fails, the line names the inputs that are wrong.

    Args:
        rule: a Rule, or a pair (forward, backward) of the same form: forward gives (y, saved), backward a tuple.
        inputs: the arrays to differentiate with respect to; they are taken as float64.
        options: what forward takes by keyword.
    """
    if not isinstance(rule, Rule) and not (isinstance(rule, tuple) and len(rule) == 2):
        return print("check_gradient: its first argument is a Rule, or a pair (forward, backward).")
    rule = as_rule(rule)
    name = rule.name
    try:
        careful = replace(rule, backward=with_form_checked(rule.backward, inputs))
        slopes = called_with_care(lambda: directional_slopes(careful, *inputs, **options), SECONDS)
    except NotFilledIn:
        return print(f"{name}: not yet")
    except Trouble as trouble:
        return print(f"{name}: WRONG. {trouble}")
    if not slopes:
        return print(f"{name}: not yet. Give check_gradient the arrays to differentiate with respect to.")
    numerical, analytic = (sum(pairs[0][side] for pairs in slopes) for side in (0, 1))
    errors = [max(relative_error(*pair) for pair in pairs) for pairs in slopes]
    wrong = [str(i) for i, error in enumerate(errors) if not error <= TOLERANCE]  # NaN is wrong
    verdict = f"WRONG in input {', '.join(wrong)} (counted from 0)" if wrong else "right"
    print(f"{name}: numerical {numerical:+.9f}, analytic {analytic:+.9f}, relative error {max(errors):.1e}: {verdict}")


def with_form_checked(backward: Callable, inputs: Sequence[Any]) -> Callable:
    """The backward, but what it returns is one gradient of the right shape for each input, or Trouble is raised."""

    def checked(*cotangents_and_saved: Any) -> tuple:
        grads = backward(*cotangents_and_saved)
        if is_unfilled(grads):
            raise NotFilledIn
        wanted = f"a tuple of {len(inputs)}, a gradient per input"
        if not isinstance(grads, (tuple, list)) or len(grads) != len(inputs):
            raise Trouble(f"The backward must return {wanted}; got {kind(grads)}.")
        for i, (x, grad) in enumerate(zip(inputs, grads, strict=True)):
            error = form_error(np.array(x, dtype=np.float64), grad, f"The gradient of input {i} (counted from 0)")
            if error:
                raise Trouble(f"{error}.")
        return tuple(grads)

    return checked


def gradients_by_tape(function: Callable[..., Tensor], grad_y: np.ndarray, *inputs: np.ndarray) -> tuple:
    """The gradients of <grad_y, function(*tensors)>: what an exercise's hand-written backward must return."""
    tensors = [Tensor(np.array(x, dtype=np.float64), requires_grad=True) for x in inputs]
    function(*tensors).backward(grad_y)
    return tuple(tensor.grad for tensor in tensors)
