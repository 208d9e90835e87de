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
    sentence: N is the number of slots in use. The tokens of ``cache`` take the slots of their positions.

    ``append`` returns what all slots hold, (B, H, N, d), and ``memory`` and ``memory_mask`` stay those of B sentences.
    Queries are brought into the same form by `group_by_sentence`. With w the maximum number of rows of a sentence:

    mask: (B, 1, w * n, N), which slots hold tokens that the n newest positions of each row may attend to, or None
    """

    def __init__(self, cache: KeyValueCache):
        vars(self).update(vars(cache))
        self._tree = PrefixTree(self.n_rows)
        self._tree.slots = self.is_token.copy()
        self._grouped_rows = self.xp.asarray(self._tree.grouped_rows)

    def extend(self, is_token: np.ndarray | None = None) -> None:
        """As in `KeyValueCache`; finds slots for the new tokens."""
        before = self.length
        super().extend(is_token)
        new, taken, after = self.is_token[:, before:], [], []
        for column in new.T:
            taken.append(self._tree.extend(column))
            after.append(self._tree.slots)  # (R, N or fewer): what each row holds once it has this token
        mask = np.zeros((*new.shape, after[-1].shape[1]), bool)  # (R, n, N)
        for position, slots in enumerate(after):
            mask[:, position, : slots.shape[1]] = slots
        rows, positions = np.nonzero(new)  # of the K new tokens
        self._sentences = self.xp.asarray(self._tree.sentences[rows])
        self._slots = self.xp.asarray(np.stack(taken, axis=1)[rows, positions])
        self._new_tokens = self.xp.asarray(rows * new.shape[1] + positions)
        mask = self._tree.group(mask).reshape(self._tree.n_sentences, 1, -1, mask.shape[2])
        self.mask = None if mask.all() else self.xp.asarray(mask)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values of the newest positions, (R, H, n, d); returns what all slots hold, (B, H, N, d)."""
        n_slots = self._tree.slots.shape[1]
        stored = self.layers.get(layer, (key.data[:, :, :0], value.data[:, :, :0]))
        self.layers[layer] = [self._with_room(array, n_slots) for array in stored]
        for array, new in zip(self.layers[layer], (key.data, value.data), strict=True):
            tokens = new.swapaxes(1, 2).reshape(-1, new.shape[1], new.shape[3])  # (R * n, H, d)
            array[self._sentences, :, self._slots] = tokens[self._new_tokens]
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
        """The rows of one sentence side by side, as if they were positions of one target: (R, n, d) to (B, w * n, d),
        zeros where a sentence has fewer rows."""
        n_sentences, width, (n, d) = self._tree.n_sentences, self._tree.width, x.shape[1:]
        grouped = self.xp.zeros((n_sentences * width, n, d), x.dtype)
        grouped[self._grouped_rows] = x.data
        return Tensor(grouped.reshape(n_sentences, width * n, d))

    def ungroup(self, grouped: Tensor) -> Tensor:
        """Back to rows: (B, w * n, d) to (R, n, d)"""
        n_sentences, width = self._tree.n_sentences, self._tree.width
        rows = grouped.data.reshape(n_sentences * width, grouped.shape[1] // max(width, 1), grouped.shape[2])
        return Tensor(rows[self._grouped_rows])
