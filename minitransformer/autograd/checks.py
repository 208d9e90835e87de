"""What NumPy would take in silence and turn into wrong numbers: each is refused with one line."""

from __future__ import annotations

import numpy as np

from minitransformer.backend import Array
from minitransformer.errors import ShapeError


def boolean(mask: Array | None, name: str) -> Array | None:
    """``mask``, but not of the other kind, 0 and -inf to be added: it would be taken the wrong way round."""
    if mask is not None and mask.dtype != bool:
        raise ShapeError(f"{name}: mask must be boolean, True = may attend, got {mask.dtype}")
    return mask


def probability(value: float, name: str) -> float:
    """``value``, a share that is dropped or smoothed, in 0 <= value < 1."""
    if not 0.0 <= value < 1.0:
        raise ShapeError(f"{name} must be at least 0 and below 1, got {value}")
    return value


def same_shape(a: tuple[int, ...], b: tuple[int, ...], name: str) -> None:
    """Broadcasting is for operators; these two must not be repeated."""
    if a != b:
        raise ShapeError(f"{name} must have the same shape, got {a} and {b}")


def ids_below(ids: Array, size: int, name: str) -> Array:
    """``ids``, whole numbers in 0..size-1: -1 would be the last row, booleans would choose rows.

    The range of NumPy arrays alone is looked at; on a GPU that would wait for the device.
    """
    if ids.dtype.kind not in "iu":
        raise ShapeError(f"{name} must be whole numbers, got {ids.dtype}")
    if isinstance(ids, np.ndarray) and ids.size and not (ids.min() >= 0 and ids.max() < size):
        raise ShapeError(f"{name} must be in 0..{size - 1}, got {ids.min()}..{ids.max()}")
    return ids
