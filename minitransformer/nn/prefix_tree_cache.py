"""The key-value cache of a beam: tokens that a sentence's partial hypotheses share are stored once and read once.

All rows of a sentence attend together, as the queries of one product with its keys, and no key or value moves when a
beam is reordered. The gain is in benchmarks/notes.md; in greedy search, where hypotheses share nothing, the plain cache
is faster.
"""

import numpy as np

from minitransformer.autograd import Tensor
from minitransformer.backend import Array
from minitransformer.nn.cache import KeyValueCache
from minitransformer.nn.prefix_tree import PrefixTree


class PrefixTreeCache(KeyValueCache):
    """Takes over a ``cache`` that a model has started, its arrays included, and keeps keys and values in slots of their
    sentence: N is the number of slots in use. The tokens of ``cache`` take the slots of their positions; from then on
    each row gets one token at a time.

    ``append`` returns what all slots hold, (B, H, N, d), and ``memory`` and ``memory_mask`` stay those of B sentences.
    Queries are brought into the same form by `group_by_sentence`. With w the maximum number of rows of a sentence:

    mask: (B, 1, w, N), which slots hold tokens of each row, or None if all do
    """

    def __init__(self, cache: KeyValueCache):
        vars(self).update(vars(cache))
        self._tree = PrefixTree(self.n_rows)
        self._tree.slots = self.is_token.copy()
        self._grouped_rows = self.xp.asarray(self._tree.grouped_rows)

    def extend(self) -> None:
        """As in `KeyValueCache`, one token each; finds slots for the new tokens."""
        super().extend()
        self._slots = self.xp.asarray(self._tree.extend())
        self._sentences = self.xp.asarray(self._tree.sentences)
        mask = self._tree.group(self._tree.slots)[:, None]
        self.mask = None if mask.all() else self.xp.asarray(mask)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of the newest position, (R, H, 1, d); returns what all slots hold, (B, H, N, d)."""
        n_slots = self._tree.slots.shape[1]
        stored = self.layers.get(layer, (key.data[:, :, :0], value.data[:, :, :0]))
        self.layers[layer] = [self._with_room(array, n_slots) for array in stored]
        for array, new in zip(self.layers[layer], (key.data, value.data), strict=True):
            array[self._sentences, :, self._slots] = new[:, :, 0]  # (R, H, d)
        keys, values = (Tensor(array[:, :, :n_slots]) for array in self.layers[layer])
        return keys, values

    def _with_room(self, array: Array, n_slots: int) -> Array:
        """``array`` with at least ``n_slots`` slots. It grows to twice its size, so that it is seldom copied."""
        there = array.shape[2]
        if there >= n_slots:
            return array
        shape = (self._tree.n_sentences, array.shape[1], max(n_slots, 2 * there or self.max_length), array.shape[3])
        larger = self.xp.zeros(shape, array.dtype)  # zeros: a masked value is multiplied by 0, so it must not be NaN
        larger[:, :, :there] = array
        return larger

    def reorder(self, rows: np.ndarray) -> None:
        """As in `KeyValueCache`; keys and values move only into the gaps of sentences that have no row left."""
        self.n_rows, self.is_token = len(rows), self.is_token[rows]
        moving, gaps = (self.xp.asarray(each) for each in self._tree.keep(rows))

        def move(array: Array) -> Array:
            array[gaps] = array[moving]  # the right side is a copy, made before anything is written
            return array[: self._tree.n_sentences]

        self.layers = {layer: [move(each) for each in pair] for layer, pair in self.layers.items()}
        self.memory = [[move(each) for each in pair] for pair in self.memory]
        self.memory_mask = None if self.memory_mask is None else move(self.memory_mask)
        self._grouped_rows = self.xp.asarray(self._tree.grouped_rows)

    def group_by_sentence(self, x: Tensor) -> Tensor:
        """The rows of one sentence side by side, as if they were positions of one target: (R, 1, d) to (B, w, d), zeros
        where a sentence has fewer rows."""
        grouped = self.xp.zeros((self._tree.n_sentences * self._tree.width, x.shape[2]), x.dtype)
        grouped[self._grouped_rows] = x.data[:, 0]
        return Tensor(grouped.reshape(self._tree.n_sentences, self._tree.width, x.shape[2]))

    def ungroup(self, grouped: Tensor) -> Tensor:
        """Back to rows: (B, w, d) to (R, 1, d)"""
        return Tensor(grouped.data.reshape(-1, 1, grouped.shape[2])[self._grouped_rows])
