"""The pairs of a WordPiece vocabulary, with bounds of `bpe.word_piece_score` kept up to date while pairs are merged."""

from collections import defaultdict

from minitransformer.text.bpe import Words, word_piece_score
from minitransformer.text.bpe_arrays import BITS, RIGHT_MASK, BpeArrays

SLACK = 0.1
"""By how many nats an occurrence a score may rise before its pair is queued again."""


class WordPieceArrays(BpeArrays):
    """`BpeArrays` in which the score of a pair is how much merging it raises the likelihood, not how often it occurs.

    This score rises whenever a merge makes one of the two symbols rarer, so a pair is queued with an upper bound of it:
    first with count(ab) log(N / count(ab)) for the N of the beginning, which cannot rise, because neither symbol is
    rarer than the pair and N only falls. Only a pair whose bound has come first is scored, then and after each merge of
    one of its symbols; where the score has risen above the bound, the pair gets a new one with some room above.
    """

    def __init__(self, words: Words, min_count: int):
        self.bounds: dict[int, float] = {}  # of the pairs that are scored
        self.scored: dict[int, set[int]] = defaultdict(set)  # these pairs, by each of their symbols
        super().__init__(words, min_count)
        self.first_total = self.total

    def score_of(self, pair: int) -> float | None:
        """An upper bound of the pair's score; None: it occurs too rarely."""
        count = super().score_of(pair)
        if count is None or pair in self.bounds:
            return self.bounds.get(pair)
        return word_piece_score(count, count, count, self.first_total)

    def confirm(self, pair: int) -> bool:
        score = self._score(pair)
        if self.bounds.get(pair) == score:
            return True
        self.bounds[pair] = score
        for symbol in (pair >> BITS, pair & RIGHT_MASK):
            self.scored[symbol].add(pair)
        return False

    def merge(self, pair: int) -> list[int]:
        changed = super().merge(pair)
        for symbol in (pair >> BITS, pair & RIGHT_MASK):
            alive = {
                each for each in self.scored[symbol] if each in self.bounds and self.counts[each] >= self.min_count
            }
            self.scored[symbol] = alive
            for each in alive:
                score = self._score(each)
                if score > self.bounds[each]:
                    self.bounds[each] = score + SLACK * self.counts[each]
                    changed.append(each)
        return changed

    def _score(self, pair: int) -> float:
        left, right = self.symbol_counts[pair >> BITS], self.symbol_counts[pair & RIGHT_MASK]
        return word_piece_score(self.counts[pair], left, right, self.total)

    def _drop(self, pair: int) -> None:
        super()._drop(pair)
        self.bounds.pop(pair, None)
