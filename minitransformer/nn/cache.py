"""The key-value cache of decoding: what earlier positions computed, kept in preallocated arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array, get_array_module, library_name, to_numpy
from minitransformer.errors import ShapeError
from minitransformer.nn.prefix_tree import PrefixTree
from minitransformer.workers import parallel_for

COPIED_ROWS = 64  # of a table that is transposed, at a time: they stay in the processor's cache


@dataclass(frozen=True)
class Memory:
    """The encoder's output: hidden, (B, S, d_model), and mask, (B, 1, 1, S), True = a real token."""

    hidden: Array
    mask: Array


class LayerCache:
    """Keys and values of one decoder layer, of each sentence: of the source (computed once), and of the target tokens
    so far, each in a slot."""

    def __init__(self, memory_keys: Array, memory_values: Array, n_slots: int):
        self.memory_keys, self.memory_values = memory_keys, memory_values  # (B, H, S, d_k), (B, H, S, d_v)
        self.keys, self.values = (_enlarged(each[:, :, :0], n_slots) for each in (memory_keys, memory_values))

    def append(self, key: Tensor, value: Tensor, sentences: Array, slots: Array) -> None:
        """Store key and value of each row's new token, (R, H, 1, d): each in a slot, (R,), of its sentence, (R,)."""
        self.keys[sentences, :, slots] = key.data[:, :, 0]
        self.values[sentences, :, slots] = value.data[:, :, 0]

    def past(self, n_slots: int) -> tuple[Tensor, Tensor]:
        """What the first slots hold, (B, H, n_slots, d_k) and (B, H, n_slots, d_v)"""
        return Tensor(self.keys[:, :, :n_slots]), Tensor(self.values[:, :, :n_slots])

    def memory(self) -> tuple[Tensor, Tensor]:
        return Tensor(self.memory_keys), Tensor(self.memory_values)

    def reserve(self, n_slots: int) -> None:
        """Room for so many slots; it at least doubles, so that old ones are seldom copied."""
        there = self.keys.shape[2]
        if there < n_slots:
            self.keys, self.values = (_enlarged(each, max(n_slots, 2 * there)) for each in (self.keys, self.values))

    def move(self, moving: Array, gaps: Array, n_sentences: int) -> None:
        """Let some sentences fill the gaps of others, and keep the first ``n_sentences``."""
        for name in ("memory_keys", "memory_values", "keys", "values"):
            setattr(self, name, _moved(getattr(self, name), moving, gaps, n_sentences))


class Cache:
    """The caches of all decoder layers, and which tokens each row has said. A row is a beginning of an output; at first
    each sentence has one, and `reorder` makes a beam of them.

    All rows of a sentence attend together, as the queries of one product with its keys.

    Attributes:
        length: target positions stored so far.
        memory_mask: (B, 1, 1, S), where the sources have tokens.
        past_mask: (B, 1, n, N), which slots hold tokens of which row; None if each row has all of them.
    """

    def __init__(self, layers: list[LayerCache], memory_mask: Array, max_length: int):
        self.layers = layers
        self.memory_mask, self.past_mask = memory_mask.copy(), None
        self.length, self.max_length = 0, max_length
        self._tree = PrefixTree(len(memory_mask))
        self._turned: Array | None = None
        self._place()

    @property
    def n_rows(self) -> int:
        """R"""
        return len(self._tree.sentences)

    def extend(self) -> None:
        """Room for one more position of every row.

        Raises:
            ShapeError: there are max_length already.
        """
        if self.length == self.max_length:
            raise ShapeError(f"decode_step: at most max_length = {self.length} positions, got one more")
        xp = get_array_module(self.memory_mask)
        self._slots = xp.asarray(self._tree.extend())  # (R,)
        for layer in self.layers:
            layer.reserve(self._tree.slots.shape[1])
        mask = self._tree.together(self._tree.slots)[:, None]  # (B, 1, n, N)
        self.past_mask = None if mask.all() else xp.asarray(mask)
        self.length += 1

    def append(self, layer: LayerCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new position's key and value, (R, H, 1, d); returns those of all slots, (B, H, N, d)."""
        layer.append(key, value, self._sentences, self._slots)
        return layer.past(self._tree.slots.shape[1])

    def reorder(self, rows: Array) -> None:
        """Keep the given rows, in that order: a beam's survivors, or a row several times to widen it to a beam."""
        xp = get_array_module(self.memory_mask)
        moving, gaps = (xp.asarray(each) for each in self._tree.keep(to_numpy(rows)))
        for layer in self.layers:
            layer.move(moving, gaps, self._tree.n_sentences)
        self.memory_mask = _moved(self.memory_mask, moving, gaps, self._tree.n_sentences)
        self._place()

    def _place(self) -> None:
        xp = get_array_module(self.memory_mask)
        self._sentences, self._places = xp.asarray(self._tree.sentences), xp.asarray(self._tree.places)

    def together(self, x: Tensor) -> Tensor:
        """The rows of one sentence side by side, as if they were positions of one target: (R, 1, d) to (B, n, d), n the
        most rows of a sentence, zeros where one has fewer."""
        width = x.shape[-1]
        grouped = get_array_module(x.data).zeros((self._tree.n_sentences * self._tree.width, width), x.dtype)
        grouped[self._places] = x.data[:, 0]
        return Tensor(grouped.reshape(-1, self._tree.width, width))

    def apart(self, grouped: Tensor) -> Tensor:
        """Back to rows: (B, n, d) to (R, 1, d)"""
        return Tensor(grouped.data.reshape(-1, grouped.shape[-1])[self._places][:, None])

    def turned(self, table: Array) -> Array:
        """``table.T``, (V, d) to (d, V): once there are several rows as a copy, made once, with contiguous rows.

        BLAS multiplies several rows by a transposed view half as fast, as it rearranges the view at every step. A GPU
        takes the view as it is.
        """
        if len(self._places) == 1 or library_name(get_array_module(table)) != "numpy":
            return table.T
        if self._turned is None:
            self._turned = _transposed_copy(table)
        return self._turned


def _enlarged(old: Array, n_slots: int) -> Array:
    """(B, H, N, d) to (B, H, n_slots, d); zeros in the new slots, as what is masked must be a number too."""
    new = get_array_module(old).zeros((*old.shape[:2], n_slots, old.shape[3]), old.dtype)
    new[:, :, : old.shape[2]] = old
    return new


def _moved(array: Array, moving: Array, gaps: Array, n_sentences: int) -> Array:
    array[gaps] = array[moving]  # the right side is a copy, made before anything is written
    return array[:n_sentences]


def _transposed_copy(table: np.ndarray) -> np.ndarray:
    turned = np.empty(table.shape[::-1], table.dtype)

    def copy(columns: slice) -> None:
        for start in range(columns.start, columns.stop, COPIED_ROWS):
            part = slice(start, min(start + COPIED_ROWS, columns.stop))
            turned[:, part] = table[part].T

    parallel_for(copy, len(table), table.size)
    return turned
