"""Checks for what NumPy would silently turn into wrong results; each error is one line that names the op."""

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from minitransformer.backend import Array
from minitransformer.errors import AutogradError, ShapeError


def check_boolean(mask: Array | None, name: str) -> None:
    """An additive mask, of 0 and -inf, would mask the opposite of what is meant; ids would multiply gradients."""
    if mask is not None and not (hasattr(mask, "dtype") and mask.dtype == bool):
        raise ShapeError(f"{name}: mask must be boolean, True = may attend, got {_dtype(mask)}")


def check_probability(value: float, name: str) -> None:
    """A rate of dropout or label smoothing: at 1 nothing would be left, and above it signs would change."""
    if not 0.0 <= value < 1.0:
        raise ShapeError(f"{name} must be at least 0 and below 1, got {value}")


def check_exponent(value: Any) -> Any:
    """``value`` as a Python number: a NumPy number would impose its dtype on the power."""
    if not isinstance(value, Number):
        raise AutogradError(f"power: exponent must be a number, got {type(value).__name__}")
    return value.item() if isinstance(value, np.generic) else value


def check_same_shape(a: tuple[int, ...], b: tuple[int, ...], name: str) -> None:
    """Broadcasting is for operators; these two must not be broadcast."""
    if a != b:
        raise ShapeError(f"{name} must have the same shape, got {a} and {b}")


def check_at_least_one(shape: tuple[int, ...], name: str) -> None:
    """None of these axes may have length 0: there is no mean, no maximum and no 1 / sqrt(d_k) of nothing."""
    if 0 in shape:
        raise ShapeError(f"{name} must be at least 1, got 0")


def check_ids_below(ids: Array, size: int, name: str) -> None:
    """Ids are integers in 0..size-1: -1 would be the last row, and booleans would select rows.

    Only the range of NumPy arrays is checked; on a GPU the check would wait for the device.
    """
    if not hasattr(ids, "dtype") or ids.dtype.kind not in "iu":
        raise ShapeError(f"{name} must be integers, got {_dtype(ids)}")
    if isinstance(ids, np.ndarray | np.generic) and ids.size and not (ids.min() >= 0 and ids.max() < size):
        raise ShapeError(f"{name} must be in 0..{size - 1}, got {ids.min()}..{ids.max()}")


def check_kinds(inputs: Sequence[Any], options: dict[str, Any], tensor: type, name: str) -> None:
    """Inputs must be tensors, since they are differentiated; options must not be: masks and ids have no gradient."""
    for i, given in enumerate(inputs):
        if not isinstance(given, tensor):
            raise AutogradError(f"{name}: input {i} must be a Tensor, got {_describe(given)}; give Tensor(array)")
    for option, given in options.items():
        if isinstance(given, tensor):
            raise AutogradError(f"{name}: {option} must be an array, got a Tensor; give tensor.data")


def numpy_arguments(given: Any, function: Callable, tensor: type, recording: bool) -> Any:
    """A NumPy function's arguments, with tensors as their values; none may require a gradient: it would be lost."""
    if isinstance(given, list | tuple):
        return type(given)(numpy_arguments(each, function, tensor, recording) for each in given)
    if isinstance(given, tensor) and given.requires_grad and recording:
        raise AutogradError(
            f"{function.__module__}.{function.__name__}: must be given arrays, got a Tensor, whose gradient "
            "would be lost; compute with operators and autograd.functions, or give tensor.numpy(), its values"
        )
    return given.numpy() if isinstance(given, tensor) else given


def check_output_and_saved(result: Any, name: str) -> tuple[Any, tuple]:
    """``result``, returned by the forward of rule ``name``: it must be a pair (y, saved), and saved a tuple."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise AutogradError(f"{name}: forward must return a pair (y, saved), got {_describe(result)}")
    if not isinstance(result[1], tuple):
        raise AutogradError(
            f"{name}: forward must return (y, saved) with saved a tuple, got {_describe(result[1])}; "
            "return (y, ()) if backward needs nothing"
        )
    return result


def check_input_gradients(grads: Any, inputs: Sequence[Any], name: str) -> tuple:
    """``grads``, returned by the backward of rule ``name``: there must be one gradient per input, of its shape.

    inputs: each with ``shape`` and ``requires_grad``; one that requires no gradient may get anything
    """
    if not isinstance(grads, tuple):
        raise AutogradError(
            f"{name}: backward must return a tuple with one gradient per input, got {_describe(grads)}; "
            "a single gradient is returned as (grad_x,)"
        )
    if len(grads) != len(inputs):
        raise AutogradError(f"{name}: backward must return one gradient per input, {len(inputs)}, got {len(grads)}")
    for position, (tensor, grad) in enumerate(zip(inputs, grads, strict=True)):
        if tensor.requires_grad and getattr(grad, "shape", None) != tensor.shape:
            raise ShapeError(
                f"{name}: gradient of input {position} must have shape {tensor.shape}, got {_describe(grad)}"
            )
    return grads


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", None) or f"a {type(value).__name__}; make an array of it")


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return type(value).__name__ + (f" of shape {value.shape}" if hasattr(value, "shape") else "")
