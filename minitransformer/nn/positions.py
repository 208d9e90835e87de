"""Position encodings, sinusoidal or learned, and the embedding that they are added to  [sec. 3.4, 3.5]."""

import math

import numpy as np

from minitransformer.autograd import Tensor, functions
from minitransformer.backend import Array, get_array_module
from minitransformer.config import ModelConfig
from minitransformer.errors import ShapeError
from minitransformer.nn.module import Module, Parameter
from minitransformer.nn.randomness import DropoutMasks, Initializer, keep_mask


def sinusoids(start: int, stop: int, d_model: int, base: float = 10000.0) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / base^(2i / d_model)),   PE(pos, 2i+1) = cos(same)      [sec. 3.5: base = 10000]

    Rows are positions start..stop-1: (stop - start, d_model), float64
    """
    positions = np.arange(start, stop)[:, None]  # (T, 1)
    frequencies = base ** (-np.arange(0, d_model, 2) / d_model)  # (ceil(d_model / 2),)
    angles = positions * frequencies  # (T, ceil(d_model / 2))
    table = np.empty((stop - start, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return table


class PositionedEmbedding(Module):
    """Dropout(sqrt(d_model) * E[ids] + position)      [sec. 3.4, 3.5, 5.4]

    ``table`` is an argument, because both embeddings and the projection may share one matrix.
    """

    base = 10000.0
    """The base of `sinusoids`; it may be changed before the first call."""

    def __init__(self, config: ModelConfig, table: Parameter, init: Initializer):
        self.table = table
        self.d_model, self.p_drop = config.d_model, config.p_drop
        self.learned: Parameter | None = None
        if config.positions == "learned":
            self.learned = Parameter(init.normal(config.max_positions, config.d_model))
        self._sinusoids: Array | None = None  # for the longest sentence seen, and some positions more

    def __call__(self, ids: Array, dropout: DropoutMasks | None = None, start: int = 0) -> Tensor:
        """ids: integers, (B, T), the tokens at positions start..start+T-1; y: (B, T, d_model)"""
        positions = self.positions(start, start + ids.shape[1])  # (T, d_model)
        keep = keep_mask(dropout, "positioned_embedding", (*ids.shape, self.d_model), self.p_drop, self.table)
        scale = math.sqrt(self.d_model)
        return functions.positioned_embedding(
            self.table, positions, ids=ids, scale=scale, keep=keep, p_drop=self.p_drop
        )

    def at(self, ids: Array, positions: np.ndarray) -> Tensor:
        """ids and their positions, both (R, n), to (R, n, d_model), without dropout"""
        vectors = self.positions(0, int(positions.max()) + 1).data[positions]
        return functions.embedding(self.table, ids=ids, scale=math.sqrt(self.d_model)) + Tensor(vectors)

    def positions(self, start: int, stop: int) -> Tensor:
        """The vectors of positions start..stop-1, (stop - start, d_model)"""
        if self.learned is not None:
            if stop > self.learned.shape[0]:
                raise ShapeError(
                    f"positions: sentence must have at most max_positions = {self.learned.shape[0]} tokens, "
                    f"got {stop}; shorten it, or train with a larger model.max_positions or with sinusoidal positions"
                )
            return self.learned[start:stop]
        table = self._sinusoids  # read once: another thread may replace it with its own, shorter one
        if table is None or stop > len(table):
            size = max(128, 2 * stop)  # room to grow: decoding asks for one position more at each step
            xp = get_array_module(self.table.data)
            table = self._sinusoids = xp.asarray(sinusoids(0, size, self.d_model, self.base), self.table.dtype)
        return Tensor(table[start:stop])
