"""Whether a right function is slow: its processor time beside the solution's, on the inputs of its exercise."""

import copy
import inspect
import time
from collections.abc import Callable

from course.calls import NotFilledIn, Trouble, called_with_care
from course.exercise import find_exercise, solution_of

SLOW = 5.0
"""A function is called slow from so many times the solution's time on."""
ENOUGH = 0.05
"""Seconds after which the best of several rounds is good enough."""


def slowness(name: str, function: Callable) -> str:
    """A remark on a right function that is slow, or not always right, else nothing."""
    solution = solution_of(name)
    if inspect.unwrap(function) is solution:
        return ""
    try:
        own, other = (seconds_of(name, each) for each in (function, solution))
    except (Trouble, NotFilledIn) as error:  # on the inputs that it was right for
        return f"not always right: {error}"
    return f"slow: {own / max(other, 1e-9):.0f} times the solution's time" if own > SLOW * other else ""


def seconds_of(name: str, function: Callable) -> float:
    """Processor time of one call on each input; the shortest of up to ten rounds."""
    exercise = find_exercise(name)
    call, cases = exercise.through(function), exercise.cases()

    def shortest() -> float:
        rounds, stop = [], time.thread_time() + ENOUGH
        while not rounds or (len(rounds) < 10 and time.thread_time() < stop):
            given = copy.deepcopy(cases)
            began = time.thread_time()
            for case in given:
                call(*case)
            rounds.append(time.thread_time() - began)
        return min(rounds)

    return called_with_care(shortest, 10 * exercise.seconds)
