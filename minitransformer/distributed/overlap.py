"""The sum of the gradient vectors over all ranks, bucket by bucket, overlapped with the backward pass."""

from collections.abc import Mapping
from typing import Any, Protocol

from minitransformer.backend import Array
from minitransformer.distributed.communicator import Communicator

BUCKET_ELEMENTS = 1 << 22
"""16 MB of float32: far above the cost of a call, far below a whole model."""


class Gradients(Protocol):
    """What is summed: a vector, the slice of it that belongs to each leaf (by ``id``), and a way to add gradients."""

    vector: Array
    slices: Mapping[int, slice]

    def accumulate(self, leaf: Any, grad: Array) -> None: ...


class OverlappedAllReduce:
    """gradients.vector = sum over all ranks; ``finish`` starts what has not been started and waits for all of it.

    In the last backward pass of an update the tape adds gradients here instead of to ``gradients``: the sum of a bucket
    starts as soon as every gradient in it, and behind it in the vector, is final. Parameters lie in the vector about in
    the order of their use, so backward makes it final from the end to the beginning. Buckets and their order are the
    same on all ranks, whatever the order of their gradients.
    """

    def __init__(self, gradients: Gradients, ranks: Communicator):
        self._gradients, self._ranks = gradients, ranks
        self._open = len(gradients.vector)  # the sums from here to the end have been started
        self._uses: dict[int, int] = {}
        self._awaited: list[tuple[int, int]] = []  # (end in the vector, id) of each leaf that is not final

    def prepare_for_backward(self, uses: Mapping[int, int]) -> "OverlappedAllReduce":
        """From now on each leaf, by ``id``, receives as many gradients as ``uses`` says, and then is final."""
        slices = self._gradients.slices
        self._uses = {leaf: count for leaf, count in uses.items() if leaf in slices}
        self._awaited = sorted((slices[leaf].stop, leaf) for leaf in self._uses)
        return self

    def accumulate(self, leaf: Any, grad: Array) -> None:
        """Called by the tape: leaf.grad += grad"""
        self._gradients.accumulate(leaf, grad)
        if id(leaf) in self._uses:
            self._uses[id(leaf)] -= 1
            while self._awaited and self._uses[self._awaited[-1][1]] == 0:
                self._awaited.pop()
            self._start(self._awaited[-1][0] if self._awaited else 0)

    def finish(self) -> None:
        """Return when the sum of the whole vector may be used."""
        self._start(0)
        self._ranks.finish()

    def _start(self, final: int) -> None:
        """Start the sums of the buckets that lie wholly in vector[final:]."""
        while self._open > 0:
            start = (self._open - 1) // BUCKET_ELEMENTS * BUCKET_ELEMENTS
            if start < final:
                return
            self._ranks.start_all_reduce_sum(self._gradients.vector[start : self._open])
            self._open = start
