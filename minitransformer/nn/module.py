"""Module and Parameter, and the one vector that holds all parameters of a model."""

import weakref
from collections import deque
from collections.abc import Iterator, Sequence, Set, ValuesView
from itertools import groupby
from operator import itemgetter
from textwrap import indent
from types import ModuleType
from typing import Any

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, address, get_array_module
from minitransformer.errors import AutogradError, ConfigError, quote

ALIGNMENT = 256  # bytes: parameters start at multiples of it, so that vector instructions and slices are aligned


class Parameter(Tensor):
    """A leaf that is learned. Its ``data`` and ``grad`` become views of the model's two vectors."""

    __slots__ = ("gradient_buffer",)

    def __init__(self, data: Array):
        super().__init__(data, requires_grad=True)
        self.gradient_buffer: GradientBuffer | None = None

    def add_gradient(self, grad: Array) -> None:
        if self.gradient_buffer is None:
            return super().add_gradient(grad)
        if self.grad is not self.gradient_buffer.views[id(self)]:
            raise AutogradError("Parameter: grad must stay in its vector, got another array; write grad[...] = values")
        self.gradient_buffer.accumulate(self, grad)

    def __reduce__(self) -> tuple:
        return type(self), (self.data,)  # a copy or a pickle is a leaf of its own, in no model's vector


class Module:
    """An object with parameters: attributes that are Parameters or Modules, or lists, tuples and dicts of them.

    A parameter's name is the path to it, such as ``encoder.layers.0.feed_forward.w1``.
    """

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """``(name, parameter)`` in order of assignment; a shared parameter may come more than once.

        Raises:
            AutogradError: parameters are in a set, a deque or the values of a dict.
        """
        yield from _named(self, "", ())

    def __repr__(self) -> str:
        """A tree of the modules and their parameters with their shapes; neighbors that are alike share a line."""
        return _tree(self, set())[0]


def _named(value: Any, prefix: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Parameter]]:
    """The parameters in ``value``, whatever it is; ``prefix`` is the path to it and a dot, ``above`` what contains it.

    A module that refers to one that contains it, as a layer to its model, adds nothing: that outer one is already being
    searched.
    """
    if isinstance(value, Parameter):
        yield prefix[:-1], value
        return
    if any(value is each for each in above):
        return
    if isinstance(value, Set | ValuesView | deque) and any(isinstance(each, Parameter | Module) for each in value):
        raise AutogradError(
            f"Module: {prefix[:-1]} must be a list, a tuple or a dict for its parameters to be found, got a "
            f"{type(value).__name__}"
        )
    for name, each in _children(value).items():
        yield from _named(each, f"{prefix}{name}.", (*above, value))


def _children(value: Any) -> dict:
    """What a module, a list, a tuple or a dict contains, by name; nothing for anything else."""
    items = vars(value) if isinstance(value, Module) else value
    if isinstance(items, list | tuple):
        items = dict(enumerate(items))
    return items if isinstance(items, dict) else {}


def _tree(value: Any, seen: set[int]) -> tuple[str, int]:
    """(`Module.__repr__`, the number of parameters) of a module or what it contains; ("", 0) if it has none."""
    is_new, _ = id(value) not in seen, seen.add(id(value))
    if isinstance(value, Parameter):
        return f"{value.shape}{'' if is_new else ', shared'}", value.data.size * is_new
    branches = [(name, *_tree(each, seen)) for name, each in _children(value).items()] if is_new else []
    count = sum(size for *_, size in branches)
    lines = [f"{type(value).__name__}, {f'{count:,} parameters' if is_new else 'shared'}"]
    for text, alike in groupby(filter(itemgetter(1), branches), itemgetter(1)):
        lines.append(indent(f"{', '.join(str(name) for name, *_ in alike)}: {text}", "  "))
    return "\n".join(lines) if len(lines) > 1 or isinstance(value, Module) else "", count


class GradientBuffer:
    """A vector of gradients, laid out like the vector of the parameters.

    Attributes:
        vector: all gradients; zero where there is none yet.
        views: the gradient of each parameter, by its ``id``, a view of ``vector``.
    """

    def __init__(self, slices: dict[Parameter, slice], parameters: Array):
        self.vector = _aligned_zeros(len(parameters), parameters.dtype, get_array_module(parameters))
        self.views = {id(parameter): self.vector[part].reshape(parameter.shape) for parameter, part in slices.items()}

    def accumulate(self, leaf: Tensor, grad: Array) -> None:
        """Add ``grad`` to the gradient of ``leaf``, a parameter of this model or another leaf; backward calls it."""
        view = self.views.get(id(leaf))
        if view is None:
            leaf.add_gradient(grad)
        else:
            view += grad


class ParameterVector:
    """All parameters of a model in one contiguous vector, all gradients in another, in order of assignment.

    Adam is then one pass, the gradient norm one dot product, a checkpoint one array and ``table``.

    Attributes:
        data, grad: vectors; the gaps that alignment leaves between parameters stay zero.
        table: ``(name, shape, offset in elements)`` of each parameter.
        count: number of parameters, gaps not counted.
        frozen: names of the parameters that `freeze` selected.
    """

    def __init__(self, model: Module, dtype: str, xp: ModuleType):
        step = ALIGNMENT // np.dtype(dtype).itemsize  # elements
        self.table: list[tuple[str, tuple[int, ...], int]] = []
        self._parameters: dict[str, Parameter] = unshared_parameters(model)
        offset = 0
        for name, parameter in self._parameters.items():
            self.table.append((name, parameter.shape, offset))
            offset += -(-parameter.data.size // step) * step
        self.count = sum(parameter.data.size for parameter in self._parameters.values())
        self.data = _aligned_zeros(offset, dtype, xp)
        self._slices: dict[Parameter, slice] = {}
        self._views: dict[str, Array] = {}
        for parameter, (name, shape, start) in zip(self._parameters.values(), self.table, strict=True):
            part = self._slices[parameter] = slice(start, start + parameter.data.size)
            self.data[part] = xp.asarray(parameter.data.ravel(), dtype)
            parameter.data = self._views[name] = self.data[part].reshape(shape)
        first = GradientBuffer(self._slices, self.data)
        self._gradients, self.grad = [first], first.vector
        for parameter in self._parameters.values():
            parameter.gradient_buffer, parameter.grad = first, first.views[id(parameter)]
        self._model = weakref.ref(model)
        self.frozen: list[str] = []

    def __setattr__(self, name: str, value: Any) -> None:
        """``data = values`` and ``grad = values`` are written into the vectors, of which the parameters are views."""
        if name not in ("data", "grad") or name not in vars(self):
            super().__setattr__(name, value)
        elif value is not vars(self)[name]:  # after += it is
            vars(self)[name][:] = value

    @property
    def names(self) -> list[str]:
        return list(self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def zero_grad(self) -> None:
        """Set the gradients to zero. A parameter that the next backward does not reach has gradient zero."""
        self.grad.fill(0)

    def freeze(self, prefixes: Sequence[str]) -> None:
        """Let `zero_frozen` zero the gradients of all parameters whose names have one of the prefixes, such as
        ``encoder`` or ``decoder.layers.0``; a new Adam then leaves them unchanged.

        Raises:
            ConfigError: no parameter's name has a given prefix.
        """
        for prefix in prefixes:
            found = [name for name in self.names if f"{name}.".startswith(f"{prefix}.")]
            if not found:
                parts = ", ".join(dict.fromkeys(name.split(".")[0] for name in self.names))
                raise ConfigError(f"training.freeze must hold names that begin with {parts}, got {quote(prefix)}")
            self.frozen += found

    def zero_frozen(self) -> None:
        """Set the gradients of frozen parameters to zero: after backward, before Adam."""
        for name in self.frozen:
            self.grad[self._slices[self[name]]] = 0

    def gradient_buffers(self, count: int) -> list[GradientBuffer]:
        """A buffer for each of ``count`` threads: the first is that of ``grad``, unchanged; the others are zeroed."""
        while len(self._gradients) < count:
            self._gradients.append(GradientBuffer(self._slices, self.data))
        for gradients in self._gradients[1:count]:
            gradients.vector.fill(0)
        return self._gradients[:count]

    def check_model(self) -> None:
        """Check that the vector still holds the model's parameters: those of a layer that was put in later would be
        updated by no optimizer and saved in no checkpoint.

        Raises:
            AutogradError: a layer, a parameter or its array was replaced or added after the vector was made.
        """
        model = self._model()
        found = self._parameters if model is None else unshared_parameters(model)
        others = [name for name, parameter in found.items() if self._parameters.get(name) is not parameter]
        if others or len(found) != len(self._parameters):
            got = f"{len(others)} new ones, such as {others[0]}" if others else f"{len(found)} of {len(self.names)}"
            raise AutogradError(
                f"ParameterVector: the model must have the parameters it was built with, got {got}; after replacing a "
                "layer set model.parameters = ParameterVector(model, dtype, xp), and make a new optimizer"
            )
        for name, view in self._views.items():
            data = self[name].data
            if data is not view and address(data) != address(view):
                raise AutogradError(
                    f"ParameterVector: the values of {name} must stay in the model's vector to be learned, got another "
                    "array; write parameter.data[...] = values instead of parameter.data = values"
                )


def unshared_parameters(model: Module) -> dict[str, Parameter]:
    """Each parameter once, under its first name.

    Raises:
        AutogradError: two parameters have the same name, as in ``{1: ..., "1": ...}``.
    """
    names: dict[Parameter, str] = {}
    for name, parameter in model.named_parameters():
        names.setdefault(parameter, name)
    parameters: dict[str, Parameter] = {}
    for parameter, name in names.items():
        if parameters.setdefault(name, parameter) is not parameter:
            raise AutogradError(f"Module: every parameter must have its own name, got two called {name}; rename a key")
    return parameters


def _aligned_zeros(length: int, dtype: str, xp: ModuleType) -> Array:
    """Zeros that start on an ALIGNMENT boundary."""
    itemsize = np.dtype(dtype).itemsize
    raw = xp.zeros(length + ALIGNMENT // itemsize, dtype)
    start = -address(raw) % ALIGNMENT // itemsize
    return raw[start : start + length]
