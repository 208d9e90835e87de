"""What the header of a checkpoint must hold. Checksums reveal damage, but not values that training never writes."""

import math
import re

from minitransformer.errors import quote

ParameterTable = list[tuple[str, tuple[int, ...], int]]
"""``(name, shape, offset in elements)`` of every parameter."""
MAX_AXES = 32
"""Maximum axes of an array in a file: the product of a shape of 100,000 numbers takes minutes."""


def shapes(table: ParameterTable) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape, _ in table}


def slices(table: ParameterTable) -> dict[str, slice]:
    """Where each parameter lies in the vector."""
    return {name: slice(offset, offset + math.prod(shape)) for name, shape, offset in table}


def count(value: object) -> int:
    """``value`` if it is an integer from 0 to 2^63 - 1, else ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{quote(value, 60)} is not a count")
    return value


def shape_from(sizes: list) -> tuple[int, ...]:
    """The shape of an array; ValueError or TypeError if it is not one."""
    if len(sizes) > MAX_AXES:
        raise ValueError(f"an array has {len(sizes)} axes")
    return tuple(map(count, sizes))


def table_from(entries: list, length: int) -> ParameterTable:
    """The table of a header, for a parameter vector of this length; ValueError or TypeError if it is not one."""
    table = [(new_name(str(name)), shape_from(shape), count(offset)) for name, shape, offset in entries]
    if len(shapes(table)) < len(table):
        raise ValueError("a parameter is listed twice")
    end = 0
    for name, where in sorted(slices(table).items(), key=lambda item: item[1].start):
        if not end <= where.start <= where.stop <= length:
            raise ValueError(f"{name} overlaps another parameter or lies outside the parameter vector")
        end = where.stop
    return table


def new_name(name: str) -> str:
    """The current name of a parameter: attention's matrices and biases were once called ``w_q`` and ``b_q``, and are
    now ``w_q.weight`` and ``w_q.bias``."""
    name = re.sub(r"(attention\.w_(q|kv|o))$", r"\1.weight", name)
    return re.sub(r"(attention\.)b_(q|kv|o)$", r"\1w_\2.bias", name)
