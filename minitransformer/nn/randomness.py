"""Where random numbers come from: initial weights and dropout masks, each determined by a seed."""

import math
from types import ModuleType

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ConfigError
from minitransformer.kernels import CountedMask, dropout_mask


class DropoutMasks:
    """A source of dropout masks for one micro-batch of one update.

    Mask number ``site`` depends on (seed, update, micro_batch, site) and nothing else, so results depend neither on
    how many processes share the work nor on where a run was interrupted. Sites are counted in the order of use.
    """

    def __init__(self, seed: int, update: int = 0, micro_batch: int = 0):
        self.key = (seed, update, micro_batch)
        self.site = 0

    def keep(
        self, shape: tuple[int, ...], p_drop: float, xp: ModuleType = np, rule: str = "dropout"
    ) -> Array | CountedMask | None:
        """What ``rule`` takes as ``keep``: True with probability 1 - p_drop; ``None`` if p_drop is 0."""
        if p_drop == 0.0:
            return None
        self.site += 1
        return dropout_mask(rule, self.key, self.site, tuple(shape), p_drop, xp)


def keep_mask(
    dropout: DropoutMasks | None, rule: str, shape: tuple[int, ...], p_drop: float, like: Tensor
) -> Array | CountedMask | None:
    """The next mask for ``rule``, in the array library of ``like``; ``None`` in evaluation, or if p_drop is 0."""
    return None if dropout is None else dropout.keep(shape, p_drop, get_array_module(like.data), rule)


class Initializer:
    """Initial values, drawn in float64, in order, from one seed."""

    def __init__(self, seed: int):
        self._generator = np.random.default_rng((seed, 0))

    def xavier(self, d_in: int, d_out: int) -> np.ndarray:
        """Uniform in +-sqrt(6 / (d_in + d_out)), (d_in, d_out)      [Glorot & Bengio 2010]"""
        limit = (6.0 / (d_in + d_out)) ** 0.5
        return self._generator.uniform(-limit, limit, (d_in, d_out))

    def xavier_side_by_side(self, d_in: int, *widths: int) -> np.ndarray:
        """Matrices by `xavier`, each with the limit of its own width, side by side, (d_in, sum of widths)."""
        return np.concatenate([self.xavier(d_in, width) for width in widths], axis=1)

    def normal(self, rows: int, d_model: int) -> np.ndarray:
        """N(0, 1 / d_model), (rows, d_model): embeddings, multiplied by sqrt(d_model), start with variance 1."""
        return self._generator.normal(0.0, d_model**-0.5, (rows, d_model))

    @staticmethod
    def zeros(length: int) -> np.ndarray:
        return np.zeros(length)

    @staticmethod
    def ones(length: int) -> np.ndarray:
        return np.ones(length)


class ShapesOnly(Initializer):
    """Initial values where only the shapes matter: one zero, broadcast to a whole array, which takes no memory.

    Raises:
        ConfigError: a parameter would have more than 2^60 values.
    """

    def __init__(self):
        super().__init__(0)

    def xavier(self, *shape: int) -> np.ndarray:
        if math.prod(shape) > 2**60:  # NumPy cannot even count the bytes
            raise ConfigError(
                f"model: a parameter must have at most 2^60 values, got the shape {shape}; make it smaller"
            )
        return np.broadcast_to(0.0, shape)

    normal = zeros = ones = xavier

    def xavier_side_by_side(self, d_in: int, *widths: int) -> np.ndarray:
        return self.xavier(d_in, sum(widths))
