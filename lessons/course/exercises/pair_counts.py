"""Exercises of lesson 10: counts of pairs, and what a merge changes in them."""

from collections import Counter

from course.exercise import Exercise, Mistake
from minitransformer.text.bpe import count_pairs, merge_pair
from minitransformer.text.pretokenizers import EndOfWord

ALPHABETS = ("ab", "abc", "aben")


def random_word(rng, alphabet, longest=8):
    return "".join(rng.choice(list(alphabet), rng.integers(1, longest + 1)))


def neighbors(symbols):
    return list(zip(symbols, symbols[1:], strict=False))


# -- pair_counts ------------------------------------------------------------------------------------------------------


def pair_counts_inputs(rng):
    yield ([(["a", "b</w>"], 3)],)
    yield ([(["a", "a", "a</w>"], 2), (["b", "a", "a</w>"], 5), (["a</w>"], 7)],)
    for alphabet in ALPHABETS:
        yield ([(EndOfWord.symbols(random_word(rng, alphabet)), int(rng.integers(2, 6))) for _ in range(6)],)


def counted(words, pairs_of=neighbors, weight=lambda frequency: frequency):
    """{pair: count}, with what each mistake changes."""
    counts: Counter = Counter()
    for symbols, frequency in words:
        for pair in pairs_of(symbols):
            counts[pair] += weight(frequency)
    return dict(counts)


def without_overlap(symbols):
    pairs, at = [], 0
    while at < len(symbols) - 1:
        pairs.append((symbols[at], symbols[at + 1]))
        at += 2 if symbols[at] == symbols[at + 1] else 1
    return pairs


PAIR_COUNTS = Exercise(
    "10_subwords.pair_counts",
    pair_counts_inputs,
    reference=lambda words: dict(count_pairs(words)),
    tested="five tables, with repeated letters and words of one symbol",
    mistakes=(
        Mistake(
            "The frequency of the words is not used: a pair of a word that occurs 5 times occurs 5 times.",
            lambda words: counted(words, weight=lambda frequency: 1),
        ),
        Mistake(
            "A pair is counted once for each word, however often it stands in it.",
            lambda words: counted(words, lambda symbols: set(neighbors(symbols))),
        ),
        Mistake(
            "Overlapping pairs are left out: `a a a` holds the pair (a, a) twice.",
            lambda words: counted(words, without_overlap),
        ),
        Mistake(
            "Pairs run across the border between two words. Neighbors stand in one word.",
            lambda words: counted(_as_one_text(words)),
        ),
        Mistake(
            "The last pair of each word is missing: n symbols have n - 1 pairs.",
            lambda words: counted(words, lambda symbols: neighbors(symbols)[:-1]),
        ),
        Mistake(
            "The two symbols of a pair are swapped: the key is (left, right), in the order of the word.",
            lambda words: counted(words, lambda symbols: [pair[::-1] for pair in neighbors(symbols)]),
        ),
    ),
)


def _as_one_text(words):
    """The words with the first symbol of the next one behind each, so that borders are counted."""
    following = [symbols[:1] for symbols, _ in words[1:]] + [[]]
    return [([*symbols, *after], count) for (symbols, count), after in zip(words, following, strict=True)]


# -- count_changes ----------------------------------------------------------------------------------------------------


def count_changes_inputs(rng):
    yield ["x", "a", "b", "y"], ("a", "b")
    yield ["a", "b", "a", "b"], ("a", "b")
    yield ["a", "a", "a"], ("a", "a")
    yield ["a", "b"], ("b", "a")
    for alphabet in ALPHABETS:
        word = random_word(rng, alphabet, 14) + "ab"
        yield list(word), neighbors(word)[int(rng.integers(len(word) - 1))]


def count_changes(symbols, pair):
    changes = Counter(neighbors(merge_pair(symbols, pair)))
    changes.subtract(neighbors(symbols))
    return _nonzero(changes)


def _nonzero(changes):
    return {pair: change for pair, change in changes.items() if change}


def changes_around(symbols, pair, *, minus=True, plus=True):
    """Each occurrence as if it stood alone: neighbors are read from the old word."""
    changes: Counter = Counter()
    joined = "".join(pair)
    for at in _positions(symbols, pair):
        changes[pair] -= 1
        if at > 0:
            changes[symbols[at - 1], pair[0]] -= minus
            changes[symbols[at - 1], joined] += plus
        if at + 2 < len(symbols):
            changes[pair[1], symbols[at + 2]] -= minus
            changes[joined, symbols[at + 2]] += plus
    return _nonzero(changes)


def _positions(symbols, pair):
    positions, at = [], 0
    while at < len(symbols) - 1:
        hit = (symbols[at], symbols[at + 1]) == pair
        positions += [at] * hit
        at += 2 if hit else 1
    return positions


COUNT_CHANGES = Exercise(
    "10_subwords.count_changes",
    count_changes_inputs,
    reference=count_changes,
    tested="seven words: neighboring occurrences, runs of one letter, and no occurrence",
    mistakes=(
        Mistake(
            "Changes of zero stand in the result; leave them out.",
            lambda symbols, pair: {
                key: count_changes(symbols, pair).get(key, 0)
                for key in [*neighbors(symbols), *neighbors(merge_pair(symbols, pair))]
            },
        ),
        Mistake(
            "Two occurrences side by side are treated as if each stood alone: in `a b a b` the pair (b, a) goes once, "
            "and (ab, ab) comes once. Read the neighbors from the word as it is at that point.",
            changes_around,
        ),
        Mistake(
            "Only what the merge brings is there. What it takes away is missing; `Counter - Counter` drops it.",
            lambda symbols, pair: {key: n for key, n in count_changes(symbols, pair).items() if n > 0},
        ),
        Mistake(
            "The lost neighbors are missing: in `x a b y` the merge also takes away (x, a) and (b, y).",
            lambda symbols, pair: changes_around(symbols, pair, minus=False),
        ),
        Mistake(
            "The new neighbors are missing: in `x a b y` the merge also brings (x, ab) and (ab, y).",
            lambda symbols, pair: changes_around(symbols, pair, plus=False),
        ),
        Mistake(
            "The signs are swapped: what the merge takes away is negative.",
            lambda symbols, pair: {key: -change for key, change in count_changes(symbols, pair).items()},
        ),
        Mistake(
            "The merged pair itself is missing: it occurs less often now.",
            lambda symbols, pair: {k: v for k, v in count_changes(symbols, pair).items() if k != pair},
        ),
    ),
)
