"""The key-value cache of decoding: what earlier positions computed, kept in preallocated arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, get_array_module, to_numpy
from minitransformer.errors import ShapeError

COPIED_ROWS = 64  # of a table that is transposed, at a time: they stay in the cache


@dataclass(frozen=True)
class Memory:
    """The encoder's output: hidden, (B, S, d_model), and mask, (B, 1, 1, S), True = a real token."""

    hidden: Array
    mask: Array


class LayerCache:
    """Keys and values of one decoder layer: of the target positions so far, one row for each beginning of an output,
    and of the sources (computed once), one row for each sentence."""

    def __init__(self, memory_keys: Array, memory_values: Array, max_length: int):
        xp = get_array_module(memory_keys)
        batch, n_heads, _, d_k = memory_keys.shape
        self.memory_keys, self.memory_values = memory_keys, memory_values  # (B, H, S, d_k), (B, H, S, d_v)
        self.keys = xp.empty((batch, n_heads, max_length, d_k), memory_keys.dtype)  # (R, H, max_length, d_k)
        self.values = xp.empty((batch, n_heads, max_length, memory_values.shape[-1]), memory_values.dtype)
        self.length = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new position's key and value, (R, H, 1, d); returns those of all positions so far."""
        if self.length == self.keys.shape[2]:
            raise ShapeError(f"decode_step: at most max_length = {self.length} positions, got one more")
        self.keys[:, :, self.length] = key.data[:, :, 0]
        self.values[:, :, self.length] = value.data[:, :, 0]
        self.length += 1
        return Tensor(self.keys[:, :, : self.length]), Tensor(self.values[:, :, : self.length])

    def memory(self) -> tuple[Tensor, Tensor]:
        return Tensor(self.memory_keys), Tensor(self.memory_values)

    def reorder(self, rows: Array) -> None:
        """Rows of the targets."""
        self.keys, self.values = (_reordered(each, rows, self.length) for each in (self.keys, self.values))

    def keep_sentences(self, kept: Array) -> None:
        """Rows of the sources."""
        self.memory_keys, self.memory_values = self.memory_keys[kept], self.memory_values[kept]


class Cache:
    """The caches of all decoder layers, and which sentence each row translates.

    Attributes:
        length: target positions stored so far.
        memory_mask: (B, 1, 1, S).
    """

    def __init__(self, layers: list[LayerCache], memory_mask: Array):
        self.layers = layers
        self.memory_mask = memory_mask
        self.length = 0
        self._turned: Array | None = None
        self._group(np.arange(len(memory_mask)))

    def reorder(self, rows: Array) -> None:
        """Keep the given rows, in that order: a beam's survivors, or a row several times to widen it to a beam."""
        sentences = self._sentences[to_numpy(rows)]
        xp = get_array_module(self.memory_mask)
        for layer in self.layers:
            layer.reorder(xp.asarray(rows))
        kept, sentences = np.unique(sentences, return_inverse=True)
        if len(kept) < len(self.memory_mask):
            kept = xp.asarray(kept)
            self.memory_mask = self.memory_mask[kept]
            for layer in self.layers:
                layer.keep_sentences(kept)
        self._group(sentences)

    def _group(self, sentences: np.ndarray) -> None:
        """sentences: (R,), the row of the memory that each row translates; each sentence has a row"""
        xp = get_array_module(self.memory_mask)
        order = np.argsort(sentences, kind="stable")
        counts = np.bincount(sentences)  # (B,)
        rank = np.empty_like(sentences)  # which of its sentence's rows each is
        rank[order] = np.arange(len(order)) - (counts.cumsum() - counts).repeat(counts)
        self._sentences, self._width = sentences, int(counts.max(initial=0))
        self._places = xp.asarray(sentences * self._width + rank)

    def together(self, x: Tensor) -> Tensor:
        """The rows of one sentence side by side, as if they were positions of one target, so that its keys and values
        are there once for all of them: (R, 1, d) to (B, n, d), n the most rows of a sentence, zeros where one has fewer
        """
        width = x.shape[-1]
        grouped = get_array_module(x.data).zeros((len(self.memory_mask) * self._width, width), x.dtype)
        grouped[self._places] = x.data[:, 0]
        return Tensor(grouped.reshape(-1, self._width, width))

    def apart(self, grouped: Tensor) -> Tensor:
        """Back to rows: (B, n, d) to (R, 1, d)"""
        return Tensor(grouped.data.reshape(-1, grouped.shape[-1])[self._places][:, None])

    def turned(self, table: Array) -> Array:
        """``table.T``, (V, d) to (d, V): once there are several rows as a copy, made once, with contiguous rows.

        BLAS multiplies several rows by a transposed view half as fast, as it rearranges the view at every step.
        """
        if len(self._sentences) == 1:
            return table.T
        if self._turned is None:
            self._turned = get_array_module(table).empty(table.shape[::-1], table.dtype)
            for start in range(0, len(table), COPIED_ROWS):
                part = slice(start, start + COPIED_ROWS)
                self._turned[:, part] = table[part].T
        return self._turned


def _reordered(old: Array, rows: Array, length: int) -> Array:
    """``old[rows]`` for the ``length`` positions that are filled, in the memory of ``old`` where there is room."""
    if len(rows) > len(old):
        new = get_array_module(old).empty((len(rows), *old.shape[1:]), old.dtype)
        new[:, :, :length] = old[rows, :, :length]
        return new
    moved = (rows != get_array_module(old).arange(len(rows))).nonzero()[0]
    old[moved, :, :length] = old[rows[moved], :, :length]  # the right side is a copy, made before anything is written
    return old[: len(rows)]
