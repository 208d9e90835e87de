"""Dropout masks that are never stored: a key and a counter from which every kernel draws the same values again."""

import math
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from minitransformer.backend import Array
from minitransformer.errors import ShapeError
from minitransformer.kernels.cupy.launch import launch_groups


class DropoutArguments(NamedTuple):
    """A mask as arguments of a kernel: the four DROPOUT_ARGUMENTS of philox.cuh."""

    key: int
    site: int
    threshold: int  # draws of 16 bits below it are dropped; 0 keeps everything
    factor: float  # 1 / (1 - p_drop)


NOTHING_DROPPED = DropoutArguments(0, 0, 0, 1.0)


@dataclass(frozen=True)
class CountedMask:
    """The mask of one dropout: what ``philox.cuh`` draws from (key, site) for each row and column.

    key: a `mixed_key`   site: which dropout of the model
    shape: of the mask; the last axis is columns, all others are rows   p_drop: exact to 1 / 131072
    """

    key: int
    site: int
    shape: tuple[int, ...]
    p_drop: float

    @property
    def arguments(self) -> DropoutArguments:
        return DropoutArguments(self.key, self.site, round(self.p_drop * 65536), 1.0 / (1.0 - self.p_drop))

    def array(self, xp: ModuleType) -> Array:
        """The same mask as a boolean array, True = kept: what the plain rules take."""
        n_rows, width = math.prod(self.shape[:-1]), self.shape[-1]
        keep = xp.empty(self.shape, dtype=bool)
        launch_groups("dropout", "keep_mask", n_rows, width, (keep, n_rows, width, *self.arguments), "float32")
        return keep


def draw_mask(rule: str, key: tuple[int, ...], site: int, shape: tuple[int, ...], p_drop: float) -> CountedMask:
    """A mask for the kernel of any rule: its values differ from NumPy's and have the same probability.

    key: seed, update and micro-batch
    """
    return CountedMask(mixed_key(key), site, shape, p_drop)


@lru_cache(maxsize=64)  # the masks of a micro-batch share their key; threads have micro-batches of their own
def mixed_key(key: tuple[int, ...]) -> int:
    """The seed, update and micro-batch as one integer of 64 bits"""
    return int(np.random.SeedSequence(key).generate_state(2, np.uint32).view(np.int64)[0])


def arguments_of(keep: CountedMask | None, name: str, shape: tuple[int, ...]) -> DropoutArguments:
    """``keep`` as arguments of a kernel.

    Raises:
        ShapeError: it is an array, which the plain rules take, or of another shape.
    """
    if keep is None:
        return NOTHING_DROPPED
    if not isinstance(keep, CountedMask):
        raise ShapeError(f'{name}: keep must be a CountedMask on the GPU; kernels.mode("simple") takes arrays')
    if keep.shape != shape:
        raise ShapeError(f"{name}: keep must have the shape {shape}, got {keep.shape}")
    return keep.arguments
