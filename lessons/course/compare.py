"""Whether two results are the same and have the same form; values in words."""

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
        fits = isinstance(got, list) or array.shape == expected.shape  # (y,) is a tuple of one, not an axis more
        return array if fits and array.dtype.kind in "bfiu" and array.size else got
    if isinstance(expected, list) and type(got) is np.ndarray and got.ndim and got.dtype.kind in "bfiuO":
        got = list(got)
    if isinstance(expected, (tuple, list)) and type(got) in (tuple, list) and len(got) == len(expected):
        return type(got)(in_form_of(a, b) for a, b in zip(expected, got, strict=True))
    return got


def form_error(expected: Any, got: Any, what: str = "The result") -> str | None:
    """What is wrong with the type or the shape of ``got``, or None."""
    if got is None and expected is not None:
        return f"{what} must be {kind(expected)}, got None (is a `return` missing?)"
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(expected):
            return f"{what} must be {kind(expected)}, got {kind(got)}"
        parts = (
            form_error(a, b, f"Part {i} of {what[0].lower()}{what[1:]}")
            for i, (a, b) in enumerate(zip(expected, got, strict=True))
        )
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
    if isinstance(value, (tuple, list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


def describe(value: Any) -> str:
    """A value on one line; a large array by its shape."""
    if isinstance(value, (tuple, list)):
        inside = ", ".join(describe(part) for part in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.ndarray) and value.size > SHOWN:
        return f"<array of shape {value.shape}>"
    if isinstance(value, np.ndarray) and value.ndim:
        array = np.asarray(value)
        tiny = array.dtype.kind == "f" and np.abs(array).max(initial=0.0) < 1e-3
        text = np.array2string(array, precision=4, suppress_small=not tiny, separator=", ")
        return " ".join(text.split())
    if callable(value):
        name = getattr(value, "__name__", "<lambda>")
        return "<a function>" if name == "<lambda>" else f"<{name}>"
    if isinstance(value, (np.ndarray, np.generic)):  # of one number
        value = value.item()
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
