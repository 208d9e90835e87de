"""The tape: every recorded op is a Node; backward walks the nodes from the newest to the oldest.

Neither the rules nor this file know of Tensor: both work on arrays. The price is that there are no second derivatives.
"""

from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from minitransformer.autograd import anomaly, checks
from minitransformer.backend import Array
from minitransformer.errors import AutogradError
from minitransformer.ops.rule import Rule

_creation_number = count()


class Source(NamedTuple):
    """Where an input came from, without its array: the array lives on only if some rule saved it."""

    node: "Node | None"
    output: int
    requires_grad: bool
    shape: tuple[int, ...]
    dtype: Any


class Node:
    """One op that was applied: its rule, what forward saved, and where its inputs came from.

    ``inputs`` are the leaves themselves where a gradient must arrive, and Sources everywhere else.

    ``number`` counts nodes in order of creation. A node is created after everything it depends on, so descending
    numbers are a topological order, in which backward visits the nodes.
    """

    __slots__ = ("rule", "saved", "inputs", "n_outputs", "number")

    def __init__(self, rule: Rule, saved: tuple, inputs: tuple[Any, ...], n_outputs: int):
        self.rule = rule
        self.saved: tuple | None = saved
        self.inputs = [
            x if x.node is None and x.requires_grad else Source(x.node, x.output, x.requires_grad, x.shape, x.dtype)
            for x in inputs
        ]
        self.n_outputs = n_outputs
        self.number = next(_creation_number)

    def backward(self, grads: list[Array | None]) -> tuple:
        """One gradient per input; frees what forward saved."""
        if self.saved is None:
            raise AutogradError(
                f"backward: the tape through {self.rule.name} was already walked and its memory freed; "
                "run the forward pass again"
            )
        grad_inputs = self.rule.backward(*grads, self.saved)
        self.saved = None
        checks.check_input_gradients(grad_inputs, self.inputs, self.rule.name)
        if anomaly.detecting.get():
            anomaly.check_backward(self.rule.name, self.inputs, grad_inputs)
        return grad_inputs


def topological_order(node: Node) -> list[Node]:
    """Every node that ``node`` depends on, itself included, newest first."""
    found, to_visit = {node}, [node]
    while to_visit:
        for source in to_visit.pop().inputs:
            if source.requires_grad and source.node is not None and source.node not in found:
                found.add(source.node)
                to_visit.append(source.node)
    return sorted(found, key=attrgetter("number"), reverse=True)


def walk_backward(tensor: Any, grad: Array, accumulate: Callable[[Any, Array], None]) -> None:
    """Backpropagate ``grad``, the gradient of ``tensor``: ``accumulate(leaf, gradient)`` for each use of a leaf."""
    if tensor.node is None:
        accumulate(tensor, grad)
        return
    grads: dict[tuple[Node, int], Array] = {(tensor.node, tensor.output): grad}
    for node in topological_order(tensor.node):
        grad_outputs = [grads.pop((node, output), None) for output in range(node.n_outputs)]
        for source, grad_input in zip(node.inputs, node.backward(grad_outputs), strict=True):
            if not source.requires_grad:
                continue
            if source.node is None:
                accumulate(source, grad_input)
                continue
            key = (source.node, source.output)
            grad_input = grad_input.astype(source.dtype, copy=False)  # where float32 meets float64 it would be float64
            # A sum is a new array: a rule may have given the same one to several inputs.
            grads[key] = grads[key] + grad_input if key in grads else grad_input
