"""A stand-in for CuPy in which NumPy computes, with arrays that refuse NumPy's arrays where CuPy's do."""

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np


class ndarray(np.ndarray):  # noqa: N801
    """An array on the device. `get` copies it to the host; ``asarray`` of the module copies an array to the device."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _compute(getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, types: Iterable[type], args: tuple, options: dict) -> Any:
        return _compute(function, args, options)

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is not Ellipsis:
            _on_host(value)
        super().__setitem__(_on_host(index), value)

    def get(self) -> np.ndarray:
        return self.view(np.ndarray).copy()


class _LikeCupy(ModuleType):
    """NumPy's functions, on arrays of the device."""

    ndarray = ndarray

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in ("asarray", "array"):
            return lambda value, *args, **options: _on_device(found(value, *args, **options))
        if isinstance(found, type | np.ufunc) or not callable(found):
            return found
        return lambda *args, **options: _compute(found, args, options)


like_cupy = _LikeCupy("cupy")


def _compute(function: Any, args: tuple, options: dict) -> Any:
    return _on_device(function(*_on_host(args), **_on_host(options)))


def _on_host(value: Any) -> Any:
    """For NumPy to compute with; TypeError, as CuPy words it, if an array is NumPy's own."""
    if isinstance(value, ndarray):
        return value.view(np.ndarray)
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, dict):
        return {name: _on_host(each) for name, each in value.items()}
    return type(value)(map(_on_host, value)) if type(value) in (list, tuple) else value


def _on_device(result: Any) -> Any:
    """Results of a reduction are arrays there, too."""
    if isinstance(result, np.ndarray | np.generic):
        return np.asarray(result).view(ndarray)
    return type(result)(map(_on_device, result)) if type(result) in (list, tuple) else result
