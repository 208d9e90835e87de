"""The backward pass of training: as `walk_backward`, but sums grow in place, and kernels add to them by themselves."""

from collections.abc import Sequence
from typing import Any

from minitransformer.autograd.gradient_sink import GradientSink
from minitransformer.autograd.tape import topological_order
from minitransformer.backend import Array
from minitransformer.kernels.destination import NEW, Destination


class InPlaceSums:
    """The gradient of every output that backward has not reached yet, summed over its uses; those of leaves go to
    ``sink``.

    An array may grow in place if nobody else holds it: a sum made here, or what the backward of a rule that
    ``accumulates`` has returned once. Such a rule may then add to it by itself, and returns that very array.
    """

    def __init__(self, sink: GradientSink):
        self._sink = sink
        self._sums: dict[tuple[Any, int], tuple[Array, bool]] = {}  # by node and output; whether it is ours alone
        self._shared: list[Array] = []  # of the arrays taken last, those that others may hold

    def walk(self, tensor: Any, grad: Array) -> None:
        """As `walk_backward`."""
        self._add(tensor, grad)
        for node in topological_order(tensor.node) if tensor.node else ():
            grads, into = self._take(node), self._destinations(node)
            grad_inputs = node.backward(grads) if into is None else node.backward(grads, into=into)
            self._add_all(node, grad_inputs, into)

    def _take(self, node: Any) -> list[Array | None]:
        """The gradients of the node's outputs, None if one was not used."""
        taken = [self._sums.pop((node, output), (None, True)) for output in range(node.n_outputs)]
        self._shared = [grad for grad, is_ours in taken if not is_ours]
        return [grad for grad, _ in taken]

    def _destinations(self, node: Any) -> tuple[Destination | None, ...] | None:
        """For each input where the node's backward may leave its gradient; None if its rule does not know how."""
        if not node.rule.accumulates:
            return None
        keys = [_key(source) for source in node.inputs]
        return tuple(
            (NEW if keys.count(key) > 1 else self._destination(source, key)) if source.requires_grad else None
            for source, key in zip(node.inputs, keys, strict=True)
        )

    def _destination(self, source: Any, key: tuple[Any, int]) -> Destination:
        if source.node is None:
            return self._sink.destination(source) or NEW
        total, is_ours = self._sums.get(key, (None, False))
        return Destination(total, add=True) if is_ours and total.flags.c_contiguous else NEW

    def _add_all(self, node: Any, grad_inputs: Sequence[Array], into: tuple[Destination | None, ...] | None) -> None:
        """What the node's backward returned, to the gradients of its inputs."""
        for source, grad, to in zip(node.inputs, grad_inputs, into or (NEW,) * len(node.inputs), strict=True):
            is_added = source.node is not None and to is not None and to.array is grad  # by the kernel
            if source.requires_grad and not is_added:
                is_ours = node.rule.accumulates and not any(grad is each for each in self._shared)
                self._add(source, grad, is_ours and sum(grad is each for each in grad_inputs) == 1)

    def _add(self, source: Any, grad: Array, is_ours: bool = False) -> None:
        """One gradient of ``source``: a tensor, or where an input came from."""
        if source.node is None:
            self._sink.accumulate(source, grad)
            return
        total, total_is_ours = self._sums.get(_key(source), (None, False))
        if total is None:
            self._sums[_key(source)] = grad, is_ours
        else:
            if total_is_ours:
                total += grad  # NumPy's scalars are new ones even so
            else:
                total = total + grad
            self._sums[_key(source)] = total, True


def _key(source: Any) -> tuple[Any, int]:
    return (source.node, source.output) if source.node is not None else (id(source), 0)
