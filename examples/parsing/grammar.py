"""The grammar of the aligned forms as a mask for the search: every output is one tree over the sentence's words."""

from collections.abc import Sequence

import numpy as np

from examples.parsing.trees import MAX_DEPTH
from minitransformer.config import EOS, UNK
from minitransformer.generation.decoding import Allowed


class Grammar:
    """Which tokens may follow: the first bracket closes after the last word and not before; none is nested too deeply
    to be read.

    kinds: the tokens of the vocabulary from the id UNK + 1 on   per_word: 1 or 2, tokens of a word
    """

    def __init__(self, kinds: Sequence[str], per_word: int):
        special = UNK + 1
        self.per_word, self.n_ids = per_word, special + len(kinds)
        self.opens = np.array([0] * special + [kind.count("(") for kind in kinds])  # (V,)
        self.net = self.opens - np.array([0] * special + [kind.count(")") for kind in kinds])
        self.begins = np.array([False] * special + [kind.startswith("(") for kind in kinds])
        self.ends = np.array([False] * special + [kind.endswith(")") for kind in kinds])
        self.reach = [np.arange(MAX_DEPTH + 1) == 0]  # [q][d]: whether q more tokens can close d open brackets

    def allowed(self, n_words: int) -> Allowed:
        """The ``allowed`` of a search for the trees of sentences that have this many words each."""
        n_tokens = n_words * self.per_word
        self._extend_reach(n_tokens)

        def mask(prefixes: np.ndarray) -> np.ndarray:
            n_rows, done = prefixes.shape
            if done == n_tokens:
                return np.tile(np.arange(self.n_ids) == EOS, (n_rows, 1))
            before = self.net[prefixes].sum(axis=1)[:, None]  # (R, 1)
            behind = before + self.net  # (R, V)
            found = (behind >= 0) & (before + self.opens <= MAX_DEPTH) & self._turn(done)
            found &= self.reach[n_tokens - done - 1][np.where(found, behind, 0)]
            return found & (self.opens > 1) if done == 0 else found  # a tree begins with a constituent

        return mask

    def _turn(self, done: int) -> np.ndarray:
        """Which tokens may come after ``done`` others, (V,)"""
        return self.begins if done % self.per_word == 0 else self.ends & ~self.begins

    def _extend_reach(self, n_tokens: int) -> None:
        """A depth is within reach of q tokens if some token leads to one that is within reach of q - 1."""
        while len(self.reach) < n_tokens:
            left = len(self.reach)
            turn = self._turn(left)  # an even number of tokens is left where words begin
            now = np.zeros(MAX_DEPTH + 1, dtype=bool)
            for opens, net in np.unique([self.opens[turn], self.net[turn]], axis=1).T:
                depths = np.arange(max(-net, 0), MAX_DEPTH - opens + 1)
                now[depths] |= self.reach[-1][depths + net]
            if left % self.per_word == 0:
                now[0] = False  # the tree would have ended before its words
            self.reach.append(now)
