"""The layers of the paper, from which models are built."""

from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.module import GradientBuffer, Module, Parameter, ParameterVector
from minitransformer.nn.prefix_tree_cache import PrefixTreeCache
from minitransformer.nn.randomness import DropoutMasks

__all__ = [
    "DropoutMasks",
    "GradientBuffer",
    "KeyValueCache",
    "Module",
    "Parameter",
    "ParameterVector",
    "PrefixTreeCache",
]
