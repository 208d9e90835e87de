"""The key-value cache of decoding: what earlier positions computed, kept in preallocated arrays."""

from __future__ import annotations

from dataclasses import dataclass

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ShapeError


@dataclass(frozen=True)
class Memory:
    """The encoder's output: hidden, (B, S, d_model), and mask, (B, 1, 1, S), True = a real token."""

    hidden: Array
    mask: Array


class LayerCache:
    """Keys and values of one decoder layer: of the target positions so far, and of the source (computed once)."""

    def __init__(self, memory_keys: Array, memory_values: Array, max_length: int):
        xp = get_array_module(memory_keys)
        batch, n_heads, _, d_k = memory_keys.shape
        self.memory_keys, self.memory_values = memory_keys, memory_values  # (B, H, S, d_k), (B, H, S, d_v)
        self.keys = xp.empty((batch, n_heads, max_length, d_k), memory_keys.dtype)
        self.values = xp.empty((batch, n_heads, max_length, memory_values.shape[-1]), memory_values.dtype)
        self.length = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new position's key and value, (B, H, 1, d); returns those of all positions so far."""
        if self.length == self.keys.shape[2]:
            raise ShapeError(f"decode_step: at most max_length = {self.length} positions, got one more")
        self.keys[:, :, self.length] = key.data[:, :, 0]
        self.values[:, :, self.length] = value.data[:, :, 0]
        self.length += 1
        return Tensor(self.keys[:, :, : self.length]), Tensor(self.values[:, :, : self.length])

    def memory(self) -> tuple[Tensor, Tensor]:
        return Tensor(self.memory_keys), Tensor(self.memory_values)

    def reorder(self, rows: Array) -> None:
        xp = get_array_module(self.keys)
        self.memory_keys, self.memory_values = self.memory_keys[rows], self.memory_values[rows]
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = xp.empty((len(rows), *old.shape[1:]), old.dtype)
            new[:, :, : self.length] = old[rows, :, : self.length]  # the part not yet filled needs no copy
            setattr(self, name, new)


class Cache:
    """The caches of all decoder layers.

    Attributes:
        length: target positions stored so far.
        memory_mask: (B, 1, 1, S).
    """

    def __init__(self, layers: list[LayerCache], memory_mask: Array):
        self.layers = layers
        self.memory_mask = memory_mask
        self.length = 0

    def reorder(self, rows: Array) -> None:
        """Keep the given rows, in that order: a beam's survivors, or a row several times to widen it to a beam."""
        rows = get_array_module(self.memory_mask).asarray(rows)
        self.memory_mask = self.memory_mask[rows]
        for layer in self.layers:
            layer.reorder(rows)
