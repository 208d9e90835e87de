"""Wrong functions that differ from a solution in one thing: its inputs, its result, or one part of the result."""

from collections.abc import Callable
from inspect import signature


def with_inputs(solution: Callable, **changes: Callable) -> Callable:
    """The solution, of inputs of which those named are changed: ``t=lambda t: t + 1``."""
    names = list(signature(solution).parameters)

    def wrong(*inputs):
        return solution(*(changes.get(name, lambda x: x)(x) for name, x in zip(names, inputs, strict=True)))

    return wrong


def with_result(solution: Callable, change: Callable) -> Callable:
    """``change`` of the right answer; the parts of a tuple are its arguments."""

    def wrong(*inputs):
        answer = solution(*inputs)
        return change(*answer) if isinstance(answer, tuple) else change(answer)

    return wrong


def with_part(solution: Callable, i: int, part: Callable) -> Callable:
    """The right tuple, except for part ``i``, which is ``part`` of the inputs."""

    def wrong(*inputs):
        answer = solution(*inputs)
        return *answer[:i], part(*inputs), *answer[i + 1 :]

    return wrong
