"""The tape: every recorded op is a Node; backward walks the nodes from the last to the first.

The rules know no Tensor, so this file needs none either: it moves arrays. No gradient of a gradient is the price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from minitransformer.backend import Array
from minitransformer.errors import AutogradError, ShapeError
from minitransformer.ops.rule import Rule

_recording: ContextVar[bool] = ContextVar("recording", default=True)
_creation_number = count()


@contextmanager
def no_grad() -> Iterator[None]:
    """Within the block nothing is recorded: results cannot be differentiated and keep no memory."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    return _recording.get()


class Source:
    """Where an input came from, without its array: the array lives on only if some rule saved it."""

    __slots__ = ("node", "output", "requires_grad", "shape")

    def __init__(self, tensor: Any):
        self.node: Node | None = tensor.node
        self.output: int = tensor.output
        self.requires_grad: bool = tensor.requires_grad
        self.shape: tuple[int, ...] = tensor.shape


class Node:
    """One op that was applied: its rule, what forward saved, and where its inputs came from.

    ``inputs`` are the leaves themselves where a gradient must arrive, and Sources everywhere else.

    ``number`` counts nodes in order of creation. An op is created after everything it depends on,
    so descending numbers are a valid order for backward and no sorting of the graph is needed.
    """

    __slots__ = ("rule", "saved", "inputs", "n_outputs", "number")

    def __init__(self, rule: Rule, saved: tuple, inputs: tuple[Any, ...], n_outputs: int):
        self.rule = rule
        self.saved: tuple | None = saved
        self.inputs = tuple(each if each.node is None and each.requires_grad else Source(each) for each in inputs)
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
        for position, (tensor, grad) in enumerate(zip(self.inputs, grad_inputs, strict=True)):
            if tensor.requires_grad and grad.shape != tensor.shape:
                raise ShapeError(
                    f"{self.rule.name}: gradient of input {position} must have shape {tensor.shape}, got {grad.shape}"
                )
        return grad_inputs


def topological_order(node: Node) -> list[Node]:
    """Every node that ``node`` depends on, itself included, newest first."""
    found, waiting = {node}, [node]
    while waiting:
        for tensor in waiting.pop().inputs:
            if tensor.node is not None and tensor.node not in found:
                found.add(tensor.node)
                waiting.append(tensor.node)
    return sorted(found, key=lambda each: each.number, reverse=True)


def count_leaf_uses(tensor: Any) -> dict[int, int]:
    """How many gradients backward from ``tensor`` will bring to each leaf, by its ``id``: one for every use."""
    uses: dict[int, int] = {}
    for node in topological_order(tensor.node):
        for source in node.inputs:
            if source.node is None and source.requires_grad:
                uses[id(source)] = uses.get(id(source), 0) + 1
    return uses


def walk_backward(tensor: Any, grad: Array, accumulate: Callable[[Any, Array], None]) -> None:
    """Bring ``grad``, the gradient of ``tensor``, to every leaf that requires one: ``arrive(leaf, its gradient)``."""
    if tensor.node is None:
        accumulate(tensor, grad)
        return
    waiting: dict[tuple[Node, int], Array] = {(tensor.node, tensor.output): grad}
    summed: set[tuple[Node, int]] = set()  # sums made here, which may grow in place; others may be shared arrays
    for node in topological_order(tensor.node):
        grads = [waiting.pop((node, output), None) for output in range(node.n_outputs)]
        if all(each is None for each in grads):
            continue
        for source, grad_input in zip(node.inputs, node.backward(grads), strict=True):
            if not source.requires_grad:
                continue
            if source.node is None:
                accumulate(source, grad_input)
                continue
            place = (source.node, source.output)
            if place not in waiting:
                waiting[place] = grad_input
            elif place in summed:
                waiting[place] += grad_input
            else:
                waiting[place] = waiting[place] + grad_input
                summed.add(place)
