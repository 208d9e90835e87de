"""Where a kernel leaves the gradient of an input: in a new array, or added to what is in one that exists."""

from typing import NamedTuple

from minitransformer.backend import Array


class Destination(NamedTuple):
    """array: contiguous, of the gradient's shape; None: a new one   add: to what is in it, not written over it"""

    array: Array | None = None
    add: bool = False


NEW = Destination()
