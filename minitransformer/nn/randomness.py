"""Where random numbers come from: initial weights and dropout masks, each from a seed and a place."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from minitransformer.backend import Array
from minitransformer.kernels import CountedMask


class DropoutMasks:
    """A source of dropout masks for one micro-batch of one update.

    Mask number ``site`` depends on (seed, update, micro_batch, site) and nothing else, so results depend neither on
    how many processes share the work nor on where a run was interrupted. Sites are counted in the order of use.
    """

    def __init__(self, seed: int, update: int = 0, micro_batch: int = 0):
        self._place = (seed, update, micro_batch)
        self._site = 0

    def keep(self, shape: tuple[int, ...], p_drop: float, xp: ModuleType = np) -> Array | None:
        """A boolean array, True with probability 1 - p_drop; ``None`` if p_drop is 0.

        The draws are 16-bit whole numbers, four to each raw number of the generator: p_drop is exact to 1 / 131072.
        """
        if p_drop == 0.0:
            return None
        self._site += 1
        generator = np.random.SFC64(np.random.SeedSequence((*self._place, self._site)))
        size = math.prod(shape)
        draws = generator.random_raw(-(-size // 4)).view(np.uint16)[:size].reshape(shape)
        return xp.asarray(draws >= round(p_drop * 65536))

    def counted(self, shape: tuple[int, ...], p_drop: float) -> CountedMask:
        """A mask that kernels draw by themselves: other values than ``keep``, of the same probability."""
        self._site += 1
        key = np.random.SeedSequence(self._place).generate_state(2, np.uint32).tolist()
        return CountedMask(tuple(key), self._site, tuple(shape), p_drop)


class Initializer:
    """Initial values, drawn in float64 one after the other from one seed."""

    def __init__(self, seed: int):
        self._generator = np.random.default_rng((seed, 0))

    def xavier(self, d_in: int, d_out: int) -> np.ndarray:
        """Uniform in +-sqrt(6 / (d_in + d_out)), (d_in, d_out)      [Glorot & Bengio 2010]"""
        limit = (6.0 / (d_in + d_out)) ** 0.5
        return self._generator.uniform(-limit, limit, (d_in, d_out))

    def xavier_side_by_side(self, d_in: int, *widths: int) -> np.ndarray:
        """Matrices as of `xavier`, each drawn with the limit of its own width, as one, (d_in, sum of widths)."""
        return np.concatenate([self.xavier(d_in, width) for width in widths], axis=1)

    def normal(self, rows: int, d_model: int) -> np.ndarray:
        """N(0, 1 / d_model), (rows, d_model): times sqrt(d_model) it has unit variance."""
        return self._generator.normal(0.0, d_model**-0.5, (rows, d_model))


class ShapesOnly(Initializer):
    """Stands for initial values whose shapes alone are asked for: one zero, seen as a whole array."""

    def __init__(self):
        super().__init__(0)

    def xavier(self, d_in: int, d_out: int) -> np.ndarray:
        return np.broadcast_to(0.0, (d_in, d_out))

    def xavier_side_by_side(self, d_in: int, *widths: int) -> np.ndarray:
        return np.broadcast_to(0.0, (d_in, sum(widths)))

    def normal(self, rows: int, d_model: int) -> np.ndarray:
        return np.broadcast_to(0.0, (rows, d_model))
