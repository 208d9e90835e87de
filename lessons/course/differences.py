"""How a result differs from the right one, in words: its form, then part by part where it has several."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from course.compare import NUMBERS, SHOWN, describe, form_error, has_nan, kind, same

MOST_PARTS = 4
"""So many sentences: which parts are right, and what is wrong with three of the others."""


def malformed(expected: Any, got: Any, called_with: str, rtol: float, names: Sequence[str] = ()) -> str | None:
    """A wrong type or shape, or NaN."""
    if isinstance(expected, tuple) and (not isinstance(got, (tuple, list)) or len(got) != len(expected)):
        return f"{form_error(expected, got)}. It was called with {called_with}."
    for name, right, given in parts_of(expected, got, names):
        error = form_error(right, given, name or "The result")
        if error:
            hint = regular_difference(right, given, rtol)
            if isinstance(right, list) and isinstance(given, (tuple, list)) and len(given) != len(right):
                hint = _example(right, given, hint)
            return f"{error}.{f' {hint}' if hint else ''} It was called with {called_with}."
        if has_nan(given) and not has_nan(right):
            return (
                f"{name or 'The result'} holds NaN, which is 0/0, inf - inf or 0 * inf: expected {describe(right)}, "
                f"got {describe(given)} for {called_with}."
            )
    return None


def parts_of(expected: Any, got: Any, names: Sequence[str] = ()) -> list[tuple[str, Any, Any]]:
    """Name, right value and given value of each part of a tuple; anything else is one part without a name."""
    if not isinstance(expected, tuple):
        return [("", expected, got)]
    if len(expected) == 1:
        return [("", expected[0], got[0])]
    return list(zip(names or [f"Part {i}" for i in range(len(expected))], expected, got, strict=True))


def in_other_order(expected: Sequence, got: Sequence, rtol: float, names: Sequence[str]) -> str | None:
    """Whether the parts of all these results are right, but stand in another order."""
    if not names or any(not isinstance(each, (tuple, list)) or len(each) != len(names) for each in got):
        return None
    both_ways = [*zip(expected, got, strict=True), *zip(got, expected, strict=True)]
    if all(any(same(part, other, rtol) for other in others) for parts, others in both_ways for part in parts):
        return f"The parts are right, but the order is {', '.join(names)}."
    return None


def difference(expected: Sequence, got: Sequence, called_with: str, rtol: float, names: Sequence[str] = ()) -> str:
    """Of results in the right form, all of them wrong: which parts are, and how the first of them is."""
    cases = [parts_of(a, b, names) for a, b in zip(expected, got, strict=True) if form_error(a, b) is None]
    cases = [case for case in cases if len(case) == len(cases[0])]  # other inputs may give more parts
    wrong = [[not same(right, given, rtol) for _, right, given in case] for case in cases]
    names = [name for name, _, _ in cases[0]]
    texts = [right_and_wrong(names, [any(part) for part in zip(*wrong, strict=True)])] if len(names) > 1 else []
    for i, (name, right, given) in enumerate(cases[0]):
        if wrong[0][i] and len(texts) < MOST_PARTS:
            rules = [regular_difference(*case[i][1:], rtol) for case, bad in zip(cases, wrong, strict=True) if bad[i]]
            found = rules[0] if all(rules) else None  # one case alone may have a rule by chance
            texts.append(
                f"{name}{name and ': '}{_example(right, given, found or first_difference(right, given, rtol))}"
            )
    return f"{' '.join(texts)} It was called with {called_with}."


def _example(right: Any, given: Any, found: str | None) -> str:
    """What was found, and the numbers if they are few."""
    if found and np.size(right) > SHOWN:
        return found
    return f"{f'{found} ' if found else ''}Expected {describe(right)}, got {describe(given)}."


def right_and_wrong(names: Sequence[str], wrong: Sequence[bool]) -> str:
    """``grad_v is right; grad_q and grad_k are not.``"""
    right, bad = ([name for name, each in zip(names, wrong, strict=True) if each == is_bad] for is_bad in (False, True))
    if not right:
        return f"None of {_listed(bad)} is right."
    be, not_be = ("is" if len(each) == 1 else "are" for each in (right, bad))
    return f"{_listed(right)} {be} right; {_listed(bad)} {not_be} not."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def regular_difference(expected: Any, got: Any, rtol: float) -> str | None:
    """A difference that has a rule: nearly right, transposed, or every number too large by the same factor."""
    if kind(expected) == "a number" and expected and same(-expected, got, rtol):
        return "The sign is wrong."
    if is_nearly(expected, got):
        return "It is right up to a thousandth: is something rounded, kept in float32, or a small number added?"
    if not (isinstance(expected, np.ndarray) and type(got) is np.ndarray and got.dtype.kind == "f"):
        return None
    if expected.ndim > 1 and same(expected.swapaxes(-1, -2), got, rtol):
        return "It is transposed: the last two axes are exchanged."
    if expected.shape != got.shape or expected.dtype.kind != "f" or expected.size < 2 or not np.abs(expected).max():
        return None
    factor = float(got.flat[np.abs(expected).argmax()] / expected.flat[np.abs(expected).argmax()])
    if factor == 0.0 or not np.isfinite(factor) or not same(factor * expected, got, rtol):
        return None
    if np.isclose(factor, -1.0):
        return "Every number has the wrong sign."
    return f"Every number is {factor:.4g} times the right one."


def is_nearly(expected: Any, got: Any) -> bool:
    """Whether every number is right up to a thousandth of itself."""
    if not isinstance(expected, NUMBERS) or np.asarray(expected).dtype.kind != "f" or form_error(expected, got):
        return False
    return np.allclose(expected, got, rtol=1e-3, atol=1e-6 * np.max(np.abs(expected), initial=0.0))


def first_difference(expected: Any, got: Any, rtol: float) -> str | None:
    """The first number of an array too large to be shown that is not as expected, or None."""
    if not isinstance(expected, np.ndarray) or expected.size <= SHOWN:
        return None
    for place in np.ndindex(expected.shape):
        if not same(expected[place], got[place], rtol):
            index = ", ".join(map(str, place))
            numbers = f"{describe(expected[place].item())}, got {describe(got[place].item())}"
            return f"The first difference is at [{index}]: expected {numbers}."
    return None
