"""The sum of the gradient vectors over all ranks, slice by slice, begun while backward still runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from minitransformer.backend import Array
from minitransformer.distributed.communicator import Communicator

BUCKET_ELEMENTS = 1 << 22  # elements: 16 MB of float32, far above the cost of a call, far below a whole model


class Gradients(Protocol):
    """What is summed: a vector, the slice of it that each leaf has (by ``id``), and a way to bring gradients to it."""

    vector: Array
    slices: Mapping[int, slice]

    def accumulate(self, leaf: Any, grad: Array) -> None: ...


class OverlappedAllReduce:
    """gradients.vector = sum over all ranks; ``finish`` sums what is not begun yet and waits for all of it.

    Backward brings gradients here instead of to ``gradients`` if it is the last one of this rank: a slice is begun as
    soon as all in it and behind it is final. Parameters stand in the vector about in the order of their use, so
    backward makes it final from the end to the beginning. The slices, and their order, are the same on all ranks,
    whatever their backward does.
    """

    def __init__(self, gradients: Gradients, ranks: Communicator):
        self._gradients, self._ranks = gradients, ranks
        self._open = len(gradients.vector)  # the sums from here to the end have begun
        self._uses: dict[int, int] = {}
        self._awaited: list[tuple[int, int]] = []  # (end in the vector, id) of each leaf that is not final

    def prepare_for_backward(self, uses: Mapping[int, int]) -> OverlappedAllReduce:
        """From now on each leaf, by ``id``, is brought as many gradients as ``uses`` says, and then is final."""
        slices = self._gradients.slices
        self._uses = {leaf: count for leaf, count in uses.items() if leaf in slices}
        self._awaited = sorted((slices[leaf].stop, leaf) for leaf in self._uses)
        return self

    def accumulate(self, leaf: Any, grad: Array) -> None:
        """Called by the tape: ``grad`` has come to ``leaf``."""
        self._gradients.accumulate(leaf, grad)
        if id(leaf) in self._uses:
            self._uses[id(leaf)] -= 1
            while self._awaited and self._uses[self._awaited[-1][1]] == 0:
                self._awaited.pop()
            self._begin(self._awaited[-1][0] if self._awaited else 0)

    def finish(self) -> None:
        """Return when the sum of the whole vector may be used."""
        self._begin(0)
        self._ranks.finish()

    def _begin(self, final: int) -> None:
        """Begin the slices that lie wholly in vector[final:]."""
        while self._open > 0:
            start = (self._open - 1) // BUCKET_ELEMENTS * BUCKET_ELEMENTS
            if start < final:
                return
            self._ranks.start_all_reduce_sum(self._gradients.vector[start : self._open])
            self._open = start
