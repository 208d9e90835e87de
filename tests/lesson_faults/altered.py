"""Wrong functions that give the right answer but for one thing."""

from collections.abc import Callable


def altered(solution: Callable, change: Callable) -> Callable:
    """Gives ``change`` of the right answer; the parts of a tuple are its arguments."""

    def wrong(*inputs):
        answer = solution(*inputs)
        return change(*answer) if isinstance(answer, tuple) else change(answer)

    return wrong


def replaced(solution: Callable, i: int, part: Callable) -> Callable:
    """Gives the right tuple, but for part ``i``, which is ``part`` of the inputs."""

    def wrong(*inputs):
        answer = solution(*inputs)
        return *answer[:i], part(*inputs), *answer[i + 1 :]

    return wrong
