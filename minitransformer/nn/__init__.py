"""The layers of the paper that models are built of."""

from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.module import Gradients, Module, Parameter, ParameterVector
from minitransformer.nn.prefix_tree_cache import PrefixTreeCache
from minitransformer.nn.randomness import DropoutMasks

__all__ = [
    "DropoutMasks",
    "Gradients",
    "KeyValueCache",
    "Module",
    "Parameter",
    "ParameterVector",
    "PrefixTreeCache",
]
