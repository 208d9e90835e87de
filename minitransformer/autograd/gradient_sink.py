"""Where backward sends the gradients of leaves, and how many each leaf will receive."""

from typing import Any, Protocol

from minitransformer.autograd.tape import topological_order
from minitransformer.backend import Array


class GradientSink(Protocol):
    """What ``backward(into=...)`` takes: called once before backward begins, then with one gradient for each use of a
    leaf."""

    def prepare_for_backward(self, tensor: Any) -> None: ...

    def accumulate(self, leaf: Any, grad: Array) -> None: ...


def count_leaf_uses(tensor: Any) -> dict[int, int]:
    """How many gradients each leaf, by its ``id``, receives in backward from ``tensor``: one for every use."""
    uses: dict[int, int] = {}
    for node in topological_order(tensor.node):
        for source in node.inputs:
            if source.node is None and source.requires_grad:
                uses[id(source)] = uses.get(id(source), 0) + 1
    return uses
