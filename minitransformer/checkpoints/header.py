"""What the header of a checkpoint must hold. Checksums show damage, but not values that no training has written."""

import math
import re

from minitransformer.errors import quoted

Table = list[tuple[str, tuple[int, ...], int]]
"""``(name, shape, offset in elements)`` of every parameter."""

MAX_PARAMETERS = 50_000
"""In a table: a model of 1,000 layers, as many as a config may have, has about 40,000."""


def shapes(table: Table) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape, _ in table}


def slices(table: Table) -> dict[str, slice]:
    """Where each parameter lies in the vector."""
    return {name: slice(offset, offset + math.prod(shape)) for name, shape, offset in table}


def count(value: object) -> int:
    """``value`` if it is an integer from 0 to 2^63 - 1, else ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{quoted(value, 60)} is not a count")
    return value


def table_from(entries: list, length: int) -> Table:
    """The table of a header, for a parameter vector of this length; ValueError or TypeError if it is not one."""
    if len(entries) > MAX_PARAMETERS:
        raise ValueError(f"a table of {len(entries)} parameters, more than {MAX_PARAMETERS}")
    table = [(new_name(str(name)), tuple(map(count, shape)), count(offset)) for name, shape, offset in entries]
    if len(shapes(table)) < len(table):
        raise ValueError("a parameter is listed twice")
    end = 0
    for name, where in sorted(slices(table).items(), key=lambda item: item[1].start):
        if not end <= where.start <= where.stop <= length:
            raise ValueError(f"{name} overlaps another parameter or lies outside the parameter vector")
        end = where.stop
    return table


def new_name(name: str) -> str:
    """The name that a parameter has now: attention's matrices and biases once were ``w_q`` and ``b_q`` beside each
    other, and are ``w_q.weight`` and ``w_q.bias``."""
    name = re.sub(r"(attention\.w_(q|kv|o))$", r"\1.weight", name)
    return re.sub(r"(attention\.)b_(q|kv|o)$", r"\1w_\2.bias", name)


METER = {"loss": float, "nll": float, "tokens": int, "updates": int, "gradient_norm": float, "seconds": float}
LOSS_SCALE = {"value": float, "good_updates": int, "is_needed": bool}
PROGRESS = {"seconds": float, "interval": METER, "epoch_so_far": METER, "loss_scale": LOSS_SCALE}
"""The entries of a Trainer's progress and their types; ``loss_scale`` may be missing."""


def checked_progress(progress: dict, schema: dict = PROGRESS) -> dict:
    """``progress`` if the Trainer wrote it or it is empty, else ValueError, TypeError or KeyError."""
    if progress == {}:
        return progress
    for name, kind in schema.items():
        if name == "loss_scale" and name not in progress:
            continue
        value = progress[name]
        if isinstance(kind, dict):
            if checked_progress(value, kind) == {} or set(value) != set(kind):
                raise ValueError(f"{name} must have {', '.join(kind)}")
        elif kind is int:
            count(value)
        elif type(value) not in (kind, int) or not math.isfinite(value):
            raise ValueError(f"{name} must be a finite {kind.__name__}")
    return progress
