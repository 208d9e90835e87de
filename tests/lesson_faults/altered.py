"""Wrong functions that differ from a solution in one thing: its source, its inputs or its result."""

from collections.abc import Callable
from inspect import getmodule, getsource, signature


def edited(solution: Callable, *changes: str) -> Callable:
    """The solution with other source: a change is ``old -> new``, of a text that stands in it once. Among the faults of
    an exercise such changes stand for the function."""
    source, names = getsource(solution), dict(vars(getmodule(solution)))
    for old, new in (change.split(" -> ") for change in changes):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    exec(source, names)
    return names[solution.__name__]


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
