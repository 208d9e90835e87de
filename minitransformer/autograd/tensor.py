"""Tensor: an array that remembers the op it came from; ``apply``, which records that op, and ``no_grad``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from minitransformer import kernels
from minitransformer.autograd import anomaly, checks
from minitransformer.autograd.tape import Node, walk_backward
from minitransformer.backend import Array, get_array_module, to_numpy
from minitransformer.errors import AutogradError, MiniTransformerError, ShapeError
from minitransformer.ops import elementwise, linear, reduce, shape
from minitransformer.ops.rule import Rule

_recording: ContextVar[bool] = ContextVar("recording", default=True)


class Tensor:
    """An array with a gradient.

    Attributes:
        data: the NumPy or CuPy array.
        grad: for a leaf, the sum of the gradients from backward; ``None`` before.
        requires_grad: whether backward computes a gradient for it.
        node, output: the op that made it and which of its outputs it is; ``node`` is ``None`` for a leaf.
    """

    __slots__ = ("data", "grad", "requires_grad", "node", "output")
    __array_ufunc__ = None  # array * Tensor calls Tensor's method; np.exp(tensor) is refused: it has no gradient

    def __init__(self, data: Any, requires_grad: bool = False, node: Node | None = None, output: int = 0):
        if isinstance(data, Tensor):
            raise AutogradError("Tensor: data must be an array or numbers, got a Tensor; give tensor.data, its values")
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

    def __iter__(self) -> Iterator["Tensor"]:
        """``self[0]``, ``self[1]``, ...: the rows, each of which can be differentiated."""
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        made_by = f", made by {self.node.rule.name}" if self.node else ""
        return f"Tensor({self.data}, requires_grad={self.requires_grad}{made_by})"

    def item(self) -> float:
        return self.data.item()

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())  # for one element, as item; otherwise Python would use the length

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def numpy(self) -> np.ndarray:
        """The values, on the CPU; what is computed from them has no gradient."""
        return to_numpy(self.data)

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        args, named = checks.numpy_arguments([args, [*kwargs.items()]], function, Tensor, _recording.get())
        return function(*args, **dict(named))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def backward(self, grad: Array | float | None = None, accumulate: "Accumulate | None" = None) -> None:
        """Add ``grad`` * d self / d leaf to the ``grad`` of every leaf that requires a gradient.

        Args:
            grad: the gradient of self, of its shape or one number for all elements; 1 if omitted, for one element.
            accumulate: called with a leaf and a gradient for it instead of adding to its ``grad``, so that threads
                that share the leaves keep separate gradients.

        Raises:
            AutogradError: self depends on no leaf that requires a gradient, ``grad`` is missing, the tape was walked
                before, or a rule's backward does not return one gradient per input.
            ShapeError: ``grad``, or what a rule's backward returned, has the wrong shape.
        """
        if not self.requires_grad:
            raise AutogradError("backward: the tensor must depend on one with requires_grad=True, and not in no_grad()")
        xp = get_array_module(self.data)
        if grad is None and self.data.size != 1:
            raise AutogradError(f"backward: grad must be given for a tensor of shape {self.shape}, got none")
        grad = 1.0 if grad is None else grad.data if isinstance(grad, Tensor) else grad
        grad = xp.asarray(grad, dtype=self.dtype)
        if grad.shape != self.shape:
            if grad.size != 1:
                raise ShapeError(f"backward: grad must have shape {self.shape}, got {grad.shape}")
            grad = xp.broadcast_to(grad.reshape(()), self.shape)
        walk_backward(self, grad, accumulate or (lambda leaf, gradient: leaf.add_gradient(gradient)))

    def add_gradient(self, grad: Array) -> None:
        """Add to ``grad``, in the dtype of the values; backward calls it on leaves."""
        self.grad = (grad if self.grad is None else self.grad + grad).astype(self.dtype)  # a copy, never a rule's array

    def __add__(self, other: "Operand") -> "Tensor":
        return apply(elementwise.add, self, self._with(other))

    def __sub__(self, other: "Operand") -> "Tensor":
        return apply(elementwise.subtract, self, self._with(other))

    def __rsub__(self, other: "Operand") -> "Tensor":
        return apply(elementwise.subtract, self._with(other), self)

    def __mul__(self, other: "Operand") -> "Tensor":
        return apply(elementwise.multiply, self, self._with(other))

    def __truediv__(self, other: "Operand") -> "Tensor":
        return apply(elementwise.divide, self, self._with(other))

    def __rtruediv__(self, other: "Operand") -> "Tensor":
        return apply(elementwise.divide, self._with(other), self)

    def __neg__(self) -> "Tensor":
        return apply(elementwise.negative, self)

    def __pow__(self, exponent: float) -> "Tensor":
        return apply(elementwise.power, self, exponent=checks.check_exponent(exponent))

    def __matmul__(self, other: "Operand") -> "Tensor":
        return apply(linear.matmul, self, self._with(other))

    def __rmatmul__(self, other: "Operand") -> "Tensor":
        return apply(linear.matmul, self._with(other), self)

    def __getitem__(self, index: Any) -> "Tensor":
        return apply(shape.getitem, self, index=index)

    __radd__ = __add__
    __rmul__ = __mul__

    def sum(self, axis: reduce.Axes = None, keepdims: bool = False) -> "Tensor":
        return apply(reduce.sum, self, axis=axis, keepdims=keepdims)

    def mean(self, axis: reduce.Axes = None, keepdims: bool = False) -> "Tensor":
        return apply(reduce.mean, self, axis=axis, keepdims=keepdims)

    def max(self, axis: reduce.Axes = None, keepdims: bool = False) -> "Tensor":
        return apply(reduce.max, self, axis=axis, keepdims=keepdims)

    def reshape(self, *new_shape: int | tuple[int, ...]) -> "Tensor":
        return apply(shape.reshape, self, shape=new_shape[0] if isinstance(new_shape[0], tuple) else new_shape)

    def transpose(self, *axes: int) -> "Tensor":
        """Swap two axes, as in PyTorch; given all axes, more than two, permute them; given none, reverse them."""
        order = list(axes or reversed(range(self.ndim)))
        if len(axes) == 2 and all(-self.ndim <= axis < self.ndim for axis in axes):
            order = list(range(self.ndim))
            order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
        return apply(shape.transpose, self, axes=tuple(order))

    @property
    def T(self) -> "Tensor":
        return self.transpose()

    def broadcast_to(self, new_shape: tuple[int, ...]) -> "Tensor":
        return apply(shape.broadcast, self, shape=new_shape)

    def exp(self) -> "Tensor":
        return apply(elementwise.exp, self)

    def log(self) -> "Tensor":
        return apply(elementwise.log, self)

    def relu(self) -> "Tensor":
        return apply(elementwise.relu, self)

    def _with(self, other: "Operand") -> "Tensor":
        """``other`` as a Tensor of this array library, and of this dtype if it is a floating-point one."""
        if isinstance(other, Tensor):
            return other
        array = get_array_module(self.data).asarray(other)
        if array.dtype.kind not in "fiub":
            raise AutogradError(f"Tensor: the other operand must be numbers, got {other!r}")
        return Tensor(array.astype(self.dtype) if self.dtype.kind == "f" else array)


Operand = Tensor | Array | float
"""What an operator accepts as its other operand."""
Accumulate = Callable[[Tensor, Array], None]
"""Called by backward with a leaf and a gradient for it, once for every use of the leaf."""


@contextmanager
def no_grad() -> Iterator[None]:
    """Within the block nothing is recorded: results cannot be differentiated, and nothing is kept for backward."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def apply(rule: Rule, *inputs: Tensor | None, **options: Any) -> Any:
    """Run ``rule`` forward on the tensors' arrays and record it if one of them requires a gradient.

    Omitted optional inputs are passed as ``None`` at the end. Returns a Tensor, or a tuple of them.

    Raises:
        ShapeError: the rule cannot take arrays of these shapes.
        AutogradError: an input is not a Tensor, an option is one, or the rule's forward does not return (y, saved).
        AnomalyError: within `detect_anomaly`, an output is NaN or infinite.
    """
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    checks.check_kinds(inputs, options, Tensor, rule.name)
    arrays = [tensor.data for tensor in inputs]
    pair = kernels.select(rule, get_array_module(*arrays))
    recorded = _recording.get() and any([tensor.requires_grad for tensor in inputs])
    inference_forward = None if recorded else pair.inference_forward
    try:
        result = (inference_forward or pair.forward)(*arrays, **options)
    except MiniTransformerError:
        raise
    except (ValueError, IndexError) as error:  # the array library's message does not name the op
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"{rule.name}: {error}; the inputs have shapes {shapes}") from error
    y, saved = (result, ()) if inference_forward else checks.check_output_and_saved(result, rule.name)
    outputs = y if isinstance(y, tuple) else (y,)
    if anomaly.detecting.get():
        anomaly.check_forward(rule.name, inputs, outputs)
    node = Node(pair, saved, inputs, len(outputs)) if recorded else None
    n_recorded = len(outputs) - pair.n_non_differentiable if recorded else 0
    tensors = [Tensor(each, True, node, i) if i < n_recorded else Tensor(each) for i, each in enumerate(outputs)]
    return tuple(tensors) if isinstance(y, tuple) else tensors[0]
