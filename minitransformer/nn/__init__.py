"""The layers of the paper up to the whole Transformer."""

from minitransformer.nn.cache import Cache, Memory
from minitransformer.nn.module import Module, Parameter, ParameterVector
from minitransformer.nn.randomness import Dropout
from minitransformer.nn.transformer import Transformer

__all__ = ["Cache", "Dropout", "Memory", "Module", "Parameter", "ParameterVector", "Transformer"]
