"""Byte-pair encoding: learn which adjacent symbols to merge, and merge them in new words  [sec. 5.1].

`naive_merges` is the algorithm as it is defined. A tokenizer is trained with `learn_merges.learn_merges`, which learns
the same merges without counting all words again after each of them. The paper's en-de vocabulary comes from byte-pair
encoding, the en-fr one from WordPiece; both learn merges and differ in the ``criterion`` that picks the next pair.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

SymbolPair = tuple[str, str]
Words = Iterable[tuple[list[str], int]]
"""The symbols of each distinct word, and how often the word occurs."""


def naive_merges(words: Words, n_merges: int, *, criterion: str = "frequency", min_count: int = 2) -> list[SymbolPair]:
    """Count pairs, merge the best one, repeat  [Sennrich et al. 2016, alg. 1].

    >>> naive_merges([(list("low"), 5), (list("lower"), 2), (list("newest"), 6)], 3)
    [('w', 'e'), ('l', 'o'), ('we', 's')]

    First, ``w e`` occurs 2 + 6 = 8 times, more often than any other pair; then ``l o`` does, 5 + 2 = 7 times. Four
    pairs are left with 6 occurrences each. Among equally good pairs the one that sorts last is merged, so that the
    result does not depend on the order of the words.

    n_merges: merges to learn, at most; learning stops earlier if no pair occurs ``min_count`` times
    criterion: what makes a pair the best, a key of CRITERIA

    Returns the merges in the order in which they were learned.
    """
    score, words, merges = CRITERIA[criterion], list(words), []
    while len(merges) < n_merges:
        counts, single = count_pairs(words), count_symbols(words)
        total = single.total()
        scores = {(a, b): score(n, single[a], single[b], total) for (a, b), n in counts.items() if n >= min_count}
        best = max(scores, key=lambda pair: (scores[pair], pair), default=None)
        if best is None:
            break
        words = [(merge_pair(symbols, best), count) for symbols, count in words]
        merges.append(best)
    return merges


def count_symbols(words: Words) -> Counter[str]:
    """How often each symbol occurs."""
    counts: Counter[str] = Counter()
    for symbols, count in words:
        for symbol in symbols:
            counts[symbol] += count
    return counts


def count_pairs(words: Words) -> Counter[SymbolPair]:
    """How often each pair of adjacent symbols occurs; overlapping ones count too (``a a a`` has ``a a`` twice)."""
    counts: Counter[SymbolPair] = Counter()
    for symbols, count in words:
        for pair in pairwise(symbols):
            counts[pair] += count
    return counts


def merge_pair(symbols: list[str], pair: SymbolPair) -> list[str]:
    """The symbols of a word with each occurrence of ``pair``, from left to right, merged into one symbol.

    >>> merge_pair(["a", "a", "a", "b"], ("a", "a"))
    ['aa', 'a', 'b']
    """
    merged, at = [], 0
    while at < len(symbols):
        size = 2 if tuple(symbols[at : at + 2]) == pair else 1
        merged.append("".join(symbols[at : at + size]))
        at += size
    return merged


def apply_merges(symbols: list[str], ranks: Mapping[SymbolPair, int]) -> list[str]:
    """Segment a word as training would have: always merge the pair that was learned first, from left to right.

    Equal to `merge_pair` with every learned pair in turn, but only looks up the pairs that the word contains.

    ranks: pair -> its position in the list of merges
    """
    symbols, unknown = list(symbols), len(ranks)
    pair_ranks = [ranks.get(pair, unknown) for pair in pairwise(symbols)]
    while pair_ranks and (first := min(pair_ranks)) != unknown:
        at = pair_ranks.index(first)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        del pair_ranks[at]
        if at > 0:
            pair_ranks[at - 1] = ranks.get((symbols[at - 1], symbols[at]), unknown)
        if at < len(pair_ranks):
            pair_ranks[at] = ranks.get((symbols[at], symbols[at + 1]), unknown)
    return symbols


def apply_merges_with_dropout(
    symbols: list[str], ranks: Mapping[SymbolPair, int], p_drop: float, draw: Callable[[], float]
) -> list[str]:
    """Before each merge, every possible one is left out with probability ``p_drop``. Of the rest, the one learned first
    is made, from left to right; if none is left, the word is done      [Provilkov et al. 2020, alg. 1]

    With 0 it is `apply_merges`.   draw: called for each possible merge, returns a number uniform in [0, 1)
    """
    symbols = list(symbols)
    while possible := [
        (ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks and draw() >= p_drop
    ]:
        _, at = min(possible)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return symbols


def frequency_score(pair: int, left: int, right: int, total: int) -> float:
    """count(ab)  [Sennrich et al. 2016]"""
    return pair


def word_piece_score(pair: int, left: int, right: int, total: int) -> float:
    """count(ab) log(count(ab) N / (count(a) count(b))), nats   [Schuster & Nakajima 2012; Wu et al. 2016]

    What merging a and b adds to the log-likelihood of the text. A unigram model gives the N symbols of the text, each
    with the probability count(s) / N,

        log L = sum over s of count(s) log(count(s) / N)

    In each of count(ab) places, one symbol of probability count(ab) / N takes the place of two, of probabilities
    count(a) / N and count(b) / N: log L rises by log(count(ab) / N) - log(count(a) / N) - log(count(b) / N).

    It is the first-order gain, with the counts on the right held fixed: in fact count(a), count(b) and N then fall by
    count(ab). The next pair is scored by the new counts. Both papers name the likelihood but publish no code.

    pair, left, right: occurrences of a b, of a and of b   total: N, symbols of the text as it is segmented so far
    """
    return pair * math.log(pair * total / (left * right))


Criterion = Callable[[int, int, int, int], float]
CRITERIA: dict[str, Criterion] = {"frequency": frequency_score, "word_piece": word_piece_score}
"""How good a merge is: from count(ab), count(a), count(b) and the number of all symbols."""
