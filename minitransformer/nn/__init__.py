"""The layers of the paper that models are built of."""

from minitransformer.nn.cache import Cache, Memory
from minitransformer.nn.module import Module, Parameter, ParameterVector
from minitransformer.nn.randomness import DropoutMasks

__all__ = ["Cache", "DropoutMasks", "Memory", "Module", "Parameter", "ParameterVector"]
