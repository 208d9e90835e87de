"""The key-value cache for decoding: keys and values of earlier positions are kept, so a step computes only new ones.

Here each row has its own. `nn/prefix_tree_cache.py` is the version for beams."""

from types import ModuleType

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.errors import ShapeError


class KeyValueCache:
    """Keys and values of every decoder layer. A row is a partial hypothesis; at first each sentence has one.

    xp: the model's array library   start_ids: (B,), the token that search feeds first for each sentence
    max_length: maximum number of positions   memory_mask: (B, 1, 1, S), True = a token
    memory: each layer's keys and values of the source, (B, H, S, d_k) and (B, H, S, d_v); none if decoder-only

    Attributes:
        n_rows: R.
        length: N, the number of positions so far, padding of prompts included.
        positions: (R, n), the place of each of the n newest tokens among its row's tokens, from 0.
        mask: (R, 1, n, N), True where one of the newest may attend; None if all may attend to all.
    """

    def __init__(self, xp: ModuleType, start_ids: np.ndarray, max_length: int, memory=(), memory_mask=None):
        self.xp, self.start_ids, self.max_length = xp, start_ids, max_length
        self.memory, self.memory_mask, self.layers = list(memory), memory_mask, {}
        self.n_rows, self.length, self.is_token = len(start_ids), 0, np.empty((len(start_ids), 0), bool)

    def extend(self, is_token: np.ndarray | None = None) -> None:
        """Add positions to all rows: one token each, or prompts, is_token: (R, n), False = padding.

        Raises:
            ShapeError: there would be more than max_length positions.
        """
        new = np.ones((self.n_rows, 1), bool) if is_token is None else is_token
        length = self.length + new.shape[1]
        if length > self.max_length:
            raise ShapeError(f"decode_step: positions must be at most max_length = {self.max_length}, got {length}")
        self.is_token = np.concatenate([self.is_token, new], axis=1)  # (R, N)
        self.positions = self.is_token.cumsum(axis=1)[:, self.length :] - 1
        mask = self.is_token[:, None, None] & np.tri(new.shape[1], length, self.length, dtype=bool)  # causal
        self.mask, self.length = None if mask.all() else self.xp.asarray(mask), length

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of the newest positions, (R, H, n, d); returns those of all, (R, H, N, d)."""
        keys, values = self.layers.get(layer, (key.data[:, :, :0], value.data[:, :, :0]))
        keys, values = self.xp.concatenate([keys, key.data], 2), self.xp.concatenate([values, value.data], 2)
        self.layers[layer] = keys, values
        return Tensor(keys), Tensor(values)

    def reorder(self, rows: np.ndarray) -> None:
        """Keep the given rows, in that order: a beam's survivors, or a row several times to widen it to a beam."""
        taken, self.n_rows, self.is_token = self.xp.asarray(rows), len(rows), self.is_token[rows]
        self.layers = {layer: [each[taken] for each in pair] for layer, pair in self.layers.items()}
        self.memory = [[each[taken] for each in pair] for pair in self.memory]
        self.memory_mask = None if self.memory_mask is None else self.memory_mask[taken]

    def group_by_sentence(self, x: Tensor) -> Tensor:
        return x  # each row attends by itself; in the fast version those of a sentence attend together

    ungroup = group_by_sentence
