"""Whether two results are the same, and the difference in words."""

from typing import Any

import numpy as np

NUMBERS = (np.ndarray, np.generic, bool, int, float)
SHOWN = 16
"""An array of more elements is described by its shape alone."""


def same(expected: Any, got: Any, rtol: float) -> bool:
    """Equal: numbers up to ``rtol``, everything else exactly, tuples and lists element by element."""
    if form_error(expected, got) is not None:
        return False
    if isinstance(expected, (tuple, list)):
        return all(same(a, b, rtol) for a, b in zip(expected, got, strict=True))
    if isinstance(expected, dict):
        return expected.keys() == got.keys() and all(same(expected[key], got[key], rtol) for key in expected)
    if isinstance(expected, NUMBERS):
        return bool(np.allclose(expected, got, rtol=rtol, atol=rtol * 1e-2, equal_nan=True))
    return bool(expected == got)


def in_form_of(expected: Any, got: Any) -> Any:
    """``got``, but a list of numbers where an array is expected is one, and an array where a list is, a list."""
    if isinstance(expected, np.ndarray) and isinstance(got, (tuple, list)):
        try:
            array = np.array(got)
        except Exception:  # rows of different lengths, or objects that do as they like
            return got
        return array if array.dtype.kind in "bfiu" and array.size else got
    if isinstance(expected, list) and type(got) is np.ndarray and got.ndim and got.dtype.kind in "bfiu":
        got = list(got)
    if isinstance(expected, (tuple, list)) and type(got) in (tuple, list) and len(got) == len(expected):
        return type(got)(in_form_of(a, b) for a, b in zip(expected, got, strict=True))
    return got


def form_error(expected: Any, got: Any, what: str = "the result") -> str | None:
    """What is wrong with the type or the shape of ``got``, or None."""
    if got is None and expected is not None:
        return f"{what} must be {kind(expected)}, got None (is a `return` missing?)"
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(expected):
            return f"{what} must be {kind(expected)}, got {kind(got)}"
        parts = (form_error(a, b, f"part {i} of {what}") for i, (a, b) in enumerate(zip(expected, got, strict=True)))
        return next((error for error in parts if error), None)
    if isinstance(expected, NUMBERS):
        return _number_error(np.asarray(expected), got, what, kind(expected))
    if not isinstance(got, type(expected)):
        return f"{what} must be {kind(expected)}, got {kind(got)}"
    return None


def _number_error(expected: np.ndarray, got: Any, what: str, wanted: str) -> str | None:
    own_kind = isinstance(got, np.ndarray) and type(got) is not np.ndarray  # np.matrix, a masked array
    if own_kind or not isinstance(got, NUMBERS) or (expected.ndim > 0 and not isinstance(got, np.ndarray)):
        return f"{what} must be {wanted}, got {kind(got)}"
    got = np.asarray(got)
    if got.shape != expected.shape:
        return f"{what} must have the shape {expected.shape}, got {got.shape}"
    fits = got.dtype.kind == "b" if expected.dtype.kind == "b" else got.dtype.kind in "fiu"
    return None if fits else f"{what} must be {wanted}, got {got.dtype}"


def has_nan(value: Any) -> bool:
    """Whether it contains a NaN."""
    if isinstance(value, (tuple, list)):
        return any(has_nan(part) for part in value)
    return isinstance(value, NUMBERS) and np.asarray(value).dtype.kind == "f" and bool(np.isnan(value).any())


def regular_difference(expected: Any, got: Any, rtol: float) -> str | None:
    """A difference that has a rule: transposed, or every number too large by the same factor."""
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(expected):
            return None
        wrong = [i for i, (a, b) in enumerate(zip(expected, got, strict=True)) if not same(a, b, rtol)]
        found = regular_difference(expected[wrong[0]], got[wrong[0]], rtol) if len(wrong) == 1 else None
        return found and f"Part {wrong[0]} of the result: {found}"
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


def first_difference(expected: Any, got: Any, rtol: float, what: str = "") -> str | None:
    """The first number of an array too large to be shown that is not as expected, or None."""
    if isinstance(expected, (tuple, list)):
        parts = enumerate(zip(expected, got, strict=True))
        found = (first_difference(a, b, rtol, f"{what}part {i}, ") for i, (a, b) in parts)
        return next((text for text in found if text), None)
    if not isinstance(expected, np.ndarray) or expected.size <= SHOWN:
        return None
    for place in np.ndindex(expected.shape):
        if not same(expected[place], got[place], rtol):
            index = ", ".join(map(str, place))
            numbers = f"{describe(expected[place].item())}, got {describe(got[place].item())}"
            return f"The first difference is at {what}[{index}]: {numbers}."
    return None


def kind(value: Any) -> str:
    """A value's type in words."""
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        return f"a {type(value).__name__}"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{'a boolean' if value.dtype == bool else 'an'} array of shape {value.shape}"
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, np.ndarray) and value.dtype == bool):
        return "True or False"
    if isinstance(value, NUMBERS):
        return "a number"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


def describe(value: Any) -> str:
    """A value on one line; a large array by its shape."""
    if isinstance(value, (tuple, list)):
        inside = ", ".join(describe(part) for part in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.ndarray) and value.size > SHOWN:
        return f"<array of shape {value.shape}>"
    if isinstance(value, (np.ndarray, np.generic)):
        text = np.array2string(np.asarray(value), precision=4, suppress_small=True, separator=", ")
        return " ".join(text.split())
    if callable(value):
        name = getattr(value, "__name__", "<lambda>")
        return "<a function>" if name == "<lambda>" else f"<{name}>"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
