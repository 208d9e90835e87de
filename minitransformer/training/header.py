"""What the header of a checkpoint must hold. Check sums show damage, but not values that no training has written."""

from __future__ import annotations

import math

from minitransformer.optim import LossScale
from minitransformer.training.metrics import Meter

Table = list[tuple[str, tuple[int, ...], int]]
"""``(name, shape, offset in elements)`` of every parameter."""


def shapes(table: Table) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape, _ in table}


def count(value: object) -> int:
    """``value`` if it is a whole number from 0 on, else ValueError."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def table_from(entries: list, length: int) -> Table:
    """The table of a header, for a parameter vector of this length; ValueError or TypeError if it is none."""
    table = [(str(name), tuple(map(count, shape)), count(offset)) for name, shape, offset in entries]
    if len(shapes(table)) < len(table):
        raise ValueError("a parameter has two places")
    end = 0
    for name, shape, offset in sorted(table, key=lambda entry: entry[2]):
        if not end <= offset <= length - math.prod(shape):
            raise ValueError(f"{name} overlaps another parameter or lies outside the parameter vector")
        end = offset + math.prod(shape)
    return table


def checked_progress(progress: dict) -> dict:
    """``progress`` if the Trainer wrote it or it is empty, else some exception."""
    if progress == {}:
        return progress
    numbers = [progress["seconds"]]
    for meter in (Meter(**progress["interval"]), Meter(**progress["epoch_so_far"])):
        numbers += [*meter.to_dict().values(), count(meter.tokens), count(meter.updates)]
    if "loss_scale" in progress:
        scale = LossScale(**progress["loss_scale"])
        numbers += [scale.value, count(scale.good_updates)]
    if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
        raise ValueError("the running means must be finite numbers")
    return progress
