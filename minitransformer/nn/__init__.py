"""The layers of the paper that models are built of."""

from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.encoder import Memory
from minitransformer.nn.module import Gradients, Module, Parameter, ParameterVector
from minitransformer.nn.prefix_tree_cache import new_cache
from minitransformer.nn.randomness import DropoutMasks

__all__ = [
    "DropoutMasks",
    "Gradients",
    "KeyValueCache",
    "Memory",
    "Module",
    "Parameter",
    "ParameterVector",
    "new_cache",
]
