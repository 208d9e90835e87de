"""Module and Parameter, and the one vector that holds all parameters of a model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array

ALIGNMENT = 256  # bytes: where a parameter may start, so that vector instructions and slices start well


class Parameter(Tensor):
    """A leaf that is learned. Its ``data`` and ``grad`` become views of the model's two vectors."""

    __slots__ = ("gradient_buffer",)

    def __init__(self, data: Array):
        super().__init__(data, requires_grad=True)
        self.gradient_buffer: Gradients | None = None

    def add_gradient(self, grad: Array) -> None:
        if self.gradient_buffer is None:
            super().add_gradient(grad)
        else:
            self.gradient_buffer.add(self, grad)


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


class Gradients:
    """A vector of gradients, laid out like the vector of the parameters.

    The first gradient of a parameter after ``zero`` is written, later ones are added: for a large matrix that is used
    once, an addition would read all the zeros first.

    Attributes:
        vector: all gradients; zero where none has come.
        views: the gradient of each parameter, by its ``id``, a view of ``vector``.
        places: where it lies in ``vector``.
    """

    def __init__(self, places: dict[Parameter, slice], length: int, dtype: str, xp: ModuleType):
        self.vector = _aligned_zeros(length, dtype, xp)
        self.places = {id(parameter): place for parameter, place in places.items()}
        self.views = {id(parameter): self.vector[place].reshape(parameter.shape) for parameter, place in places.items()}
        self._written: set[int] = set()

    def zero(self) -> None:
        """Forget all gradients."""
        self.vector.fill(0)
        self._written.clear()

    def prepare_for_backward(self, tensor: Tensor) -> None:
        """Called before a backward from ``tensor``: nothing to do, as gradients may come in any order."""

    def add(self, leaf: Tensor, grad: Array) -> None:
        """Called by the tape: ``grad`` has come to ``leaf``, a parameter of this model or a leaf of somebody else's."""
        view = self.views.get(id(leaf))
        if view is None:
            leaf.add_gradient(grad)
        elif id(leaf) in self._written:
            view += grad
        else:
            view[...] = grad
            self._written.add(id(leaf))


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
        places = {}
        for parameter, (_, shape, start) in zip(self._parameters.values(), self.table, strict=True):
            place = places[parameter] = slice(start, start + parameter.data.size)
            self.data[place] = xp.asarray(parameter.data.ravel(), dtype)
            parameter.data = self.data[place].reshape(shape)
        self._new_gradients = partial(Gradients, places, offset, dtype, xp)
        self._gradients = [self._new_gradients()]
        self.grad = self._gradients[0].vector
        for parameter in self._parameters.values():
            parameter.gradient_buffer, parameter.grad = self._gradients[0], self._gradients[0].views[id(parameter)]

    @property
    def names(self) -> list[str]:
        return list(self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def zero_grad(self) -> None:
        """Forget the gradients. A parameter that the next backward does not reach has gradient zero."""
        self._gradients[0].zero()

    def gradient_buffers(self, count: int) -> list[Gradients]:
        """``count`` buffers for as many threads: the first is that of ``grad``, as it is; the others are zeroed."""
        while len(self._gradients) < count:
            self._gradients.append(self._new_gradients())
        for gradients in self._gradients[1:count]:
            gradients.zero()
        return self._gradients[:count]


def _aligned_zeros(length: int, dtype: str, xp: ModuleType) -> Array:
    """Zeros that start on an ALIGNMENT boundary."""
    itemsize = np.dtype(dtype).itemsize
    spare = ALIGNMENT // itemsize
    raw = xp.zeros(length + spare, dtype)
    address = raw.ctypes.data if xp is np else raw.data.ptr
    start = -address % ALIGNMENT // itemsize
    return raw[start : start + length]
