"""Which partial hypotheses share which tokens: the bookkeeping of a decoder's cache, without its arrays.

The partial hypotheses of one sentence share most of their tokens: they are a tree of prefixes. Each token is stored
once, in a slot of its sentence, and a hypothesis is the set of its tokens' slots. So nothing moves when a beam changes:
survivors take over the slots of the hypotheses that they extend, and slots that none needs any more are used again.
"""

import numpy as np


class PrefixTree:
    """The partial hypotheses of all sentences, a row each; rows of one sentence need not be neighbors.

    Attributes:
        sentences: (R,), the sentence of each row; every sentence has a row.
        n_sentences: B.
        width: n, the maximum number of rows of a sentence.
        grouped_rows: (R,), the index of each row when those of a sentence are side by side: sentence * n + rank.
        slots: (R, N), True = this slot holds a token of this row.
    """

    def __init__(self, n_sentences: int):
        self.n_sentences = n_sentences
        self.slots = np.zeros((n_sentences, 0), dtype=bool)
        self._group(np.arange(n_sentences))

    def extend(self) -> np.ndarray:
        """A slot for one more token of each row, the lowest that no row of its sentence uses, (R,)"""
        used = self.group(self.slots).any(axis=1)  # (B, N)
        used = np.concatenate([used, np.zeros((self.n_sentences, self.width), dtype=bool)], axis=1)  # room for new ones
        free_slots = np.argsort(used, axis=1, kind="stable")  # (B, N + n): the free ones first, ascending
        taken = free_slots[self.sentences, self.grouped_rows - self.sentences * self.width]  # (R,)
        slots = np.zeros((len(taken), max(self.slots.shape[1], taken.max(initial=-1) + 1)), dtype=bool)
        slots[:, : self.slots.shape[1]] = self.slots
        slots[np.arange(len(taken)), taken] = True
        self.slots = slots
        return taken

    def keep(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keep the given rows, in that order, some perhaps repeated. The last sentences fill the gaps of those that
        have no row left: returns (moving, gaps), the old and the new numbers of the sentences that move."""
        sentences, slots = self.sentences[rows], self.slots[rows]
        self.slots = slots[:, : np.flatnonzero(slots.any(axis=0)).max(initial=-1) + 1]
        stays = np.isin(np.arange(self.n_sentences), sentences)  # (B,)
        self.n_sentences = int(np.count_nonzero(stays))
        gaps = np.flatnonzero(~stays[: self.n_sentences])
        moving = self.n_sentences + np.flatnonzero(stays[self.n_sentences :])
        number = np.arange(len(stays))
        number[moving] = gaps
        self._group(number[sentences])
        return moving, gaps

    def group(self, rows: np.ndarray) -> np.ndarray:
        """The rows of a sentence side by side, (R, ...) to (B, n, ...), zeros where it has fewer than n."""
        grouped = np.zeros((self.n_sentences * self.width, *rows.shape[1:]), rows.dtype)
        grouped[self.grouped_rows] = rows
        return grouped.reshape(self.n_sentences, self.width, *rows.shape[1:])

    def _group(self, sentences: np.ndarray) -> None:
        order = np.argsort(sentences, kind="stable")
        counts = np.bincount(sentences, minlength=self.n_sentences)  # (B,)
        rank = np.empty_like(sentences)  # which of its sentence's rows each is
        rank[order] = np.arange(len(order)) - (counts.cumsum() - counts).repeat(counts)
        self.sentences, self.width = sentences, int(counts.max(initial=0))
        self.grouped_rows = sentences * self.width + rank
