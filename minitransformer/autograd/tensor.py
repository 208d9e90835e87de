"""Tensor: an array that remembers the op it came from, and ``apply``, which records that op."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from minitransformer import kernels
from minitransformer.autograd.tape import Node, is_recording, walk_backward
from minitransformer.backend import Array, get_array_module
from minitransformer.errors import AutogradError, ShapeError
from minitransformer.ops import elementwise, linear, reduce, shape
from minitransformer.ops.rule import Rule


class Tensor:
    """An array with a gradient.

    Attributes:
        data: the NumPy or CuPy array.
        grad: the gradient that backward brought here, for leaves; ``None`` before.
        requires_grad: whether gradients flow to it.
        node, output: the op that made it and which of its outputs it is; ``node`` is ``None`` for a leaf.
    """

    __slots__ = ("data", "grad", "requires_grad", "node", "output")
    __array_priority__ = 1000  # so that ndarray * Tensor asks Tensor first

    def __init__(self, data: Any, requires_grad: bool = False, node: Node | None = None, output: int = 0):
        self.data: Array = data if hasattr(data, "dtype") and hasattr(data, "shape") else np.asarray(data)
        self.grad: Array | None = None
        self.requires_grad = requires_grad
        self.node = node
        self.output = output
        if requires_grad and node is None and self.data.dtype.kind != "f":
            raise AutogradError(f"Tensor: requires_grad must be on floating-point data, got {self.data.dtype}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        made_by = f", made by {self.node.rule.name}" if self.node else ""
        return f"Tensor({self.data}, requires_grad={self.requires_grad}{made_by})"

    def item(self) -> float:
        return self.data.item()

    def backward(self, grad: Array | float | None = None, into: GradientSink | None = None) -> None:
        """Bring d self / d leaf to every leaf's ``grad``, on top of what is there.

        Args:
            grad: the gradient of self, of its shape; left out, it is 1 and self must be a single number.
            into: where the gradients go instead, so that threads that share the leaves can keep theirs apart.
        """
        if not self.requires_grad:
            raise AutogradError("backward: the tensor must depend on one with requires_grad=True, and not in no_grad()")
        xp = get_array_module(self.data)
        if grad is None:
            if self.data.size != 1:
                raise AutogradError(
                    f"backward: needs a grad for a tensor of shape {self.shape}, only a scalar has none"
                )
            grad = 1.0
        grad = xp.asarray(getattr(grad, "data", grad) if isinstance(grad, Tensor) else grad, dtype=self.dtype)
        if grad.shape != self.shape:
            if grad.size != 1:
                raise ShapeError(f"backward: grad must have shape {self.shape}, got {grad.shape}")
            grad = grad.reshape(self.shape) if self.data.size == 1 else xp.broadcast_to(grad, self.shape)
        if into is None:
            walk_backward(self, grad, _to_the_leaf)
            return
        into.prepare_for_backward(self)
        walk_backward(self, grad, into.add)

    def add_gradient(self, grad: Array) -> None:
        """Called by the tape on a leaf."""
        self.grad = grad.copy() if self.grad is None else self.grad + grad

    # Operators: each applies the rule of its name.
    def __add__(self, other: Operand) -> Tensor:
        return apply(elementwise.add, self, self._with(other))

    def __sub__(self, other: Operand) -> Tensor:
        return apply(elementwise.subtract, self, self._with(other))

    def __rsub__(self, other: Operand) -> Tensor:
        return apply(elementwise.subtract, self._with(other), self)

    def __mul__(self, other: Operand) -> Tensor:
        return apply(elementwise.multiply, self, self._with(other))

    def __truediv__(self, other: Operand) -> Tensor:
        return apply(elementwise.divide, self, self._with(other))

    def __rtruediv__(self, other: Operand) -> Tensor:
        return apply(elementwise.divide, self._with(other), self)

    def __neg__(self) -> Tensor:
        return apply(elementwise.negative, self)

    def __pow__(self, exponent: float) -> Tensor:
        return apply(elementwise.power, self, exponent=exponent)

    def __matmul__(self, other: Operand) -> Tensor:
        return apply(linear.matmul, self, self._with(other))

    def __rmatmul__(self, other: Operand) -> Tensor:
        return apply(linear.matmul, self._with(other), self)

    def __getitem__(self, index: Any) -> Tensor:
        return apply(shape.getitem, self, index=index)

    __radd__ = __add__
    __rmul__ = __mul__

    def sum(self, axis: reduce.Axes = None, keepdims: bool = False) -> Tensor:
        return apply(reduce.sum, self, axis=axis, keepdims=keepdims)

    def mean(self, axis: reduce.Axes = None, keepdims: bool = False) -> Tensor:
        return apply(reduce.mean, self, axis=axis, keepdims=keepdims)

    def max(self, axis: reduce.Axes = None, keepdims: bool = False) -> Tensor:
        return apply(reduce.max, self, axis=axis, keepdims=keepdims)

    def reshape(self, *new_shape: int | tuple[int, ...]) -> Tensor:
        return apply(shape.reshape, self, shape=new_shape[0] if isinstance(new_shape[0], tuple) else new_shape)

    def transpose(self, *axes: int) -> Tensor:
        return apply(shape.transpose, self, axes=axes or tuple(reversed(range(self.ndim))))

    def broadcast_to(self, new_shape: tuple[int, ...]) -> Tensor:
        return apply(shape.broadcast, self, shape=new_shape)

    def exp(self) -> Tensor:
        return apply(elementwise.exp, self)

    def log(self) -> Tensor:
        return apply(elementwise.log, self)

    def relu(self) -> Tensor:
        return apply(elementwise.relu, self)

    def _with(self, other: Operand) -> Tensor:
        """``other`` as a Tensor of this library, and of this dtype if that can hold fractions."""
        if isinstance(other, Tensor):
            return other
        array = get_array_module(self.data).asarray(other)
        if array.dtype.kind not in "fiub":
            raise AutogradError(f"Tensor: the other operand must be numbers, got {other!r}")
        return Tensor(array.astype(self.dtype) if self.dtype.kind == "f" else array)


class GradientSink(Protocol):
    """What ``backward`` may bring gradients to: ``add`` is called once for every use of a leaf."""

    def prepare_for_backward(self, tensor: Tensor) -> None: ...

    def add(self, leaf: Tensor, grad: Array) -> None: ...


def _to_the_leaf(leaf: Tensor, grad: Array) -> None:
    leaf.add_gradient(grad)


Operand = Tensor | Array | float
"""What may stand beside a Tensor in an expression."""


def apply(rule: Rule, *inputs: Tensor | None, **options: Any) -> Any:
    """Run ``rule`` forward on the tensors' arrays and record it if one of them requires a gradient.

    Inputs that a rule may do without are given as ``None`` at the end. Returns a Tensor, or a tuple of them.
    """
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    arrays = tuple(tensor.data for tensor in inputs)
    pair = kernels.select(rule, get_array_module(*arrays))
    recorded = is_recording() and any(tensor.requires_grad for tensor in inputs)
    try:
        if not recorded and pair.inference_forward is not None:
            y, saved = pair.inference_forward(*arrays, **options), None
        else:
            y, saved = pair.forward(*arrays, **options)
    except ShapeError:
        raise
    except (ValueError, IndexError) as error:  # the array library's own words do not name the op
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"{rule.name}: {error}; the inputs have shapes {shapes}") from error
    outputs = y if isinstance(y, tuple) else (y,)
    if not recorded:
        tensors = tuple(Tensor(each) for each in outputs)
    else:
        node = Node(pair, saved, inputs, len(outputs))
        differentiable = len(outputs) - pair.n_non_differentiable
        tensors = tuple(
            Tensor(each, requires_grad=True, node=node, output=i) if i < differentiable else Tensor(each)
            for i, each in enumerate(outputs)
        )
    return tensors if isinstance(y, tuple) else tensors[0]
