"""Module and Parameter, and the one vector that holds all parameters of a model."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array

ALIGNMENT = 256  # bytes: where a parameter may start, so that vector instructions and slices start well


class Parameter(Tensor):
    """A leaf that is learned. Its ``data`` and ``grad`` become views of the model's two vectors.

    The first gradient after ``zero_grad`` is written over ``grad``, later ones are added: for a large matrix that is
    used once, an addition would read all the zeros first.
    """

    __slots__ = ("is_fresh",)

    def __init__(self, data: Array):
        super().__init__(data, requires_grad=True)
        self.is_fresh = True

    def add_gradient(self, grad: Array) -> None:
        if self.grad is None:
            self.grad = grad.copy()
        elif self.is_fresh:
            self.grad[...] = grad
        else:
            self.grad += grad
        self.is_fresh = False


class Module:
    """Something with parameters: attributes that are Parameters, Modules or lists of Modules, found by their names."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """``(name, parameter)`` in order of assignment; a shared parameter may come more than once."""
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield prefix + name, value
            elif isinstance(value, Module):
                yield from value.named_parameters(f"{prefix}{name}.")
            elif isinstance(value, list):
                for i, each in enumerate(value):
                    if isinstance(each, Module):
                        yield from each.named_parameters(f"{prefix}{name}.{i}.")


class ParameterVector:
    """All parameters of a model in one contiguous vector, all gradients in another, in order of assignment.

    Adam is then one pass, the gradient norm one dot product, a checkpoint one array and ``table``.

    Attributes:
        data, grad: vectors; the gaps that alignment leaves between parameters stay zero.
        table: ``(name, shape, offset in elements)`` of each parameter.
        count: number of parameters, gaps not counted.
    """

    def __init__(self, model: Module, dtype: str, xp: ModuleType):
        step = ALIGNMENT // np.dtype(dtype).itemsize  # elements
        self.table: list[tuple[str, tuple[int, ...], int]] = []
        self._parameters: dict[str, Parameter] = {}
        seen, offset = set(), 0
        for name, parameter in model.named_parameters():
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            self._parameters[name] = parameter
            self.table.append((name, parameter.shape, offset))
            offset += -(-parameter.data.size // step) * step
        self.count = sum(parameter.data.size for parameter in self._parameters.values())
        self.data = _aligned_zeros(offset, dtype, xp)
        self.grad = _aligned_zeros(offset, dtype, xp)
        for parameter, (_, shape, start) in zip(self._parameters.values(), self.table, strict=True):
            place = slice(start, start + parameter.data.size)
            self.data[place] = xp.asarray(parameter.data.ravel(), dtype)
            parameter.data = self.data[place].reshape(shape)
            parameter.grad = self.grad[place].reshape(shape)

    @property
    def names(self) -> list[str]:
        return list(self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def zero_grad(self) -> None:
        """Forget the gradients. A parameter that the next backward does not reach has gradient zero."""
        self.grad.fill(0)
        for parameter in self._parameters.values():
            parameter.is_fresh = True


def _aligned_zeros(length: int, dtype: str, xp: ModuleType) -> Array:
    """Zeros that start on an ALIGNMENT boundary."""
    itemsize = np.dtype(dtype).itemsize
    spare = ALIGNMENT // itemsize
    raw = xp.zeros(length + spare, dtype)
    address = raw.ctypes.data if xp is np else raw.data.ptr
    start = -address % ALIGNMENT // itemsize
    return raw[start : start + length]
