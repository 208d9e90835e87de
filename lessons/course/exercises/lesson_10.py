"""Exercises of lesson 10: byte-pair encoding."""

from collections import Counter
from itertools import islice

from course.exercise import Exercise, Mistake
from minitransformer.text.bpe import apply_merges, count_pairs, merge_pair
from minitransformer.text.learn_merges import learn_merges
from minitransformer.text.pretokenizers import EndOfWord

ALPHABETS = ("ab", "abc", "aben")


def random_word(rng, alphabet, longest=8):
    return "".join(rng.choice(list(alphabet), rng.integers(1, longest + 1)))


def neighbours(symbols):
    return list(zip(symbols, symbols[1:], strict=False))


# -- pair_counts ------------------------------------------------------------------------------------------------------


def pair_counts_inputs(rng):
    yield ([(["a", "b</w>"], 3)],)
    yield ([(["a", "a", "a</w>"], 2), (["b", "a", "a</w>"], 5), (["a</w>"], 7)],)
    for alphabet in ALPHABETS:
        yield ([(EndOfWord.symbols(random_word(rng, alphabet)), int(rng.integers(2, 6))) for _ in range(6)],)


def counted(words, pairs_of=neighbours, weight=lambda frequency: frequency):
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
            lambda words: counted(words, lambda symbols: set(neighbours(symbols))),
        ),
        Mistake(
            "Overlapping pairs are left out: `a a a` holds the pair (a, a) twice.",
            lambda words: counted(words, without_overlap),
        ),
        Mistake(
            "Pairs run across the border between two words. Neighbours stand in one word.",
            lambda words: counted(_as_one_text(words)),
        ),
        Mistake(
            "The last pair of each word is missing: n symbols have n - 1 pairs.",
            lambda words: counted(words, lambda symbols: neighbours(symbols)[:-1]),
        ),
        Mistake(
            "The two symbols of a pair are swapped: the key is (left, right), in the order of the word.",
            lambda words: counted(words, lambda symbols: [pair[::-1] for pair in neighbours(symbols)]),
        ),
    ),
)


def _as_one_text(words):
    """The words with the first symbol of the next one behind each, so that borders are counted."""
    following = [symbols[:1] for symbols, _ in words[1:]] + [[]]
    return [([*symbols, *after], count) for (symbols, count), after in zip(words, following, strict=True)]


# -- merge ------------------------------------------------------------------------------------------------------------


def merge_inputs(rng):
    yield ["a", "b"], ("a", "b")
    yield ["a", "a", "a", "a", "a"], ("a", "a")
    yield ["ab", "c", "b", "c"], ("b", "c")
    yield ["b", "a", "c"], ("a", "b")
    yield ["l", "o", "w</w>"], ("e", "s")
    for alphabet in ALPHABETS:
        yield list(random_word(rng, alphabet, 12)), tuple(rng.choice(list(alphabet), 2).tolist())


def merged_once(symbols, pair):
    at = neighbours(symbols).index(pair) if pair in neighbours(symbols) else None
    return symbols if at is None else [*symbols[:at], "".join(pair), *symbols[at + 2 :]]


def merged_with_overlap(symbols, pair):
    hits = [tuple(symbols[at : at + 2]) == pair for at in range(len(symbols))]
    return [
        "".join(pair) if hit else symbol
        for at, (symbol, hit) in enumerate(zip(symbols, hits, strict=True))
        if hit or at == 0 or not hits[at - 1]
    ]


def merged_in_text(symbols, pair):
    """Joined with spaces, and replaced as text: the end of a symbol is taken for a whole one."""
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split(" ")


MERGE = Exercise(
    "10_subwords.merge",
    merge_inputs,
    reference=merge_pair,
    tested="eight words: runs of one letter, symbols that end like the left one, and no pair at all",
    mistakes=(
        Mistake("Only the first occurrence is merged; a merge goes through the whole word.", merged_once),
        Mistake(
            "The symbols are joined as text and replaced: in `ab c` there is no symbol b, only ab.", merged_in_text
        ),
        Mistake(
            "Merging runs from the right. In a run of an odd number the symbol left over must be the last.",
            lambda symbols, pair: [s[::-1] for s in _mirrored(symbols, pair)][::-1],
        ),
        Mistake(
            "A symbol that was just merged is used again: after a merge go on behind both symbols.", merged_with_overlap
        ),
        Mistake(
            "The order within the pair is ignored: (a, b) does not merge `b a`.",
            lambda symbols, pair: merge_pair(merge_pair(symbols, pair), pair[::-1]),
        ),
    ),
)


def _mirrored(symbols, pair):
    return merge_pair([s[::-1] for s in symbols][::-1], (pair[1][::-1], pair[0][::-1]))


# -- segment ----------------------------------------------------------------------------------------------------------


def learned(words, n_merges):
    return list(islice(learn_merges([(EndOfWord.symbols(word), count) for word, count in words.items()]), n_merges))


TABLE = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def segment_inputs(rng):
    yield "ab", [("a", "b</w>")]
    yield "abc", [("b", "c</w>"), ("a", "b")]
    yield "abcd", [("a", "b"), ("c", "d</w>"), ("ab", "c")]
    yield "x", []
    for word in ("lowest", "slow", "newer", "lows"):
        yield word, learned(TABLE, 9)
    yield "abab", [("a", "b"), ("ab", "a"), ("ab", "ab</w>")]
    for alphabet in ALPHABETS:
        merges = learned({random_word(rng, alphabet): int(rng.integers(2, 9)) for _ in range(12)}, 20)
        yield random_word(rng, alphabet, 12), merges


def segment(word, merges):
    return apply_merges(EndOfWord.symbols(word), _ranks(merges))


def _ranks(merges):
    return {pair: rank for rank, pair in enumerate(merges)}


def longest_first(word, merges):
    letters, symbols = EndOfWord.symbols(word), []
    known = {left + right for left, right in merges} | set(letters)
    while letters:
        size = max(n for n in range(1, len(letters) + 1) if "".join(letters[:n]) in known)
        symbols.append("".join(letters[:size]))
        letters = letters[size:]
    return symbols


def leftmost_pair(word, merges):
    symbols = EndOfWord.symbols(word)
    while any(pair in merges for pair in neighbours(symbols)):
        at = next(at for at, pair in enumerate(neighbours(symbols)) if pair in merges)
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]
    return symbols


SEGMENT = Exercise(
    "10_subwords.segment",
    segment_inputs,
    reference=segment,
    tested="twelve words, seen and unseen, against the engine's apply_merges",
    mistakes=(
        Mistake(
            "The end mark is missing: the last letter is written with </w>, so that endings differ from beginnings.",
            lambda word, merges: apply_merges(list(word), _ranks(merges)),
        ),
        Mistake(
            "The end mark is a symbol of its own here; it belongs to the last letter.",
            lambda word, merges: apply_merges([*word, "</w>"], _ranks(merges)),
        ),
        Mistake(
            "The merge learned last is applied first. Later merges join what earlier ones made: begin with the first.",
            lambda word, merges: segment(word, merges[::-1]),
        ),
        Mistake(
            "The longest known subword is taken from the left. Training merged in the order of learning; do likewise.",
            longest_first,
        ),
        Mistake(
            "The leftmost pair that is in the list is merged; the one learned first must be, wherever it stands.",
            leftmost_pair,
        ),
        Mistake(
            "Only one merge is applied. Begin again until no pair of neighbours is in the list.",
            lambda word, merges: merge_pair(EndOfWord.symbols(word), _first_of(word, merges)),
        ),
        Mistake("No merge is applied: these are the letters.", lambda word, merges: EndOfWord.symbols(word)),
    ),
)


def _first_of(word, merges):
    present = set(neighbours(EndOfWord.symbols(word)))
    return next((pair for pair in merges if pair in present), ("", ""))


# -- count_changes ----------------------------------------------------------------------------------------------------


def count_changes_inputs(rng):
    yield ["x", "a", "b", "y"], ("a", "b")
    yield ["a", "b", "a", "b"], ("a", "b")
    yield ["a", "a", "a"], ("a", "a")
    yield ["a", "b"], ("b", "a")
    for alphabet in ALPHABETS:
        word = random_word(rng, alphabet, 14) + "ab"
        yield list(word), neighbours(word)[int(rng.integers(len(word) - 1))]


def count_changes(symbols, pair):
    changes = Counter(neighbours(merge_pair(symbols, pair)))
    changes.subtract(neighbours(symbols))
    return _nonzero(changes)


def _nonzero(changes):
    return {pair: change for pair, change in changes.items() if change}


def changes_around(symbols, pair, *, minus=True, plus=True):
    """Each occurrence as if it stood alone: neighbours are read from the old word."""
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
    tested="seven words: neighbouring occurrences, runs of one letter, and no occurrence",
    mistakes=(
        Mistake(
            "Changes of zero stand in the result; leave them out.",
            lambda symbols, pair: {
                key: count_changes(symbols, pair).get(key, 0)
                for key in [*neighbours(symbols), *neighbours(merge_pair(symbols, pair))]
            },
        ),
        Mistake(
            "Two occurrences side by side are treated as if each stood alone: in `a b a b` the pair (b, a) goes once, "
            "and (ab, ab) comes once. Read the neighbours from the word as it is by now.",
            changes_around,
        ),
        Mistake(
            "Only what the merge brings is there. What it takes away is missing; `Counter - Counter` drops it.",
            lambda symbols, pair: {key: n for key, n in count_changes(symbols, pair).items() if n > 0},
        ),
        Mistake(
            "The lost neighbours are missing: in `x a b y` the merge also takes away (x, a) and (b, y).",
            lambda symbols, pair: changes_around(symbols, pair, minus=False),
        ),
        Mistake(
            "The new neighbours are missing: in `x a b y` the merge also brings (x, ab) and (ab, y).",
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

# -- learn ------------------------------------------------------------------------------------------------------------


def learn_inputs(rng):
    yield {"ab": 2}, 5
    yield {"ab": 3, "ba": 3}, 1
    yield {"ab": 1, "cd": 4}, 5
    yield dict(TABLE), 10
    for alphabet in ALPHABETS:
        yield {random_word(rng, alphabet): int(rng.integers(1, 7)) for _ in range(15)}, 30


def learned_by(frequencies, n_merges, *, best=None, base=EndOfWord.symbols, weight=None, least=2, recount=True):
    """BPE with what each mistake changes."""
    words = [(base(word), weight or count) for word, count in frequencies.items()]
    best = best or (lambda counts: max(counts, key=lambda pair: (counts[pair], pair)))
    merges: list = []
    counts = counted(words)
    while counts and len(merges) < n_merges and max(counts.values()) >= least:
        merges.append(best(counts))
        words = [(merge_pair(symbols, merges[-1]), count) for symbols, count in words]
        counts = counted(words) if recount else {pair: n for pair, n in counts.items() if pair != merges[-1]}
    return merges


LEARN = Exercise(
    "10_subwords.learn",
    learn_inputs,
    reference=lambda frequencies, n_merges: learned(frequencies, n_merges),
    tested="seven tables with ties, against the engine's learn_merges",
    mistakes=(
        Mistake(
            "Of equally frequent pairs the first in sorted order is taken; the engine takes the last.",
            lambda frequencies, n: learned_by(
                frequencies, n, best=lambda counts: min(counts, key=lambda p: (-counts[p], p))
            ),
        ),
        Mistake(
            "Of equally frequent pairs the one counted first is taken: then the order of the words decides.",
            lambda frequencies, n: learned_by(frequencies, n, best=lambda counts: max(counts, key=counts.get)),
        ),
        Mistake("The frequency of the words is not used.", lambda frequencies, n: learned_by(frequencies, n, weight=2)),
        Mistake(
            "A pair that occurs once is merged too. It may never occur again: stop when none occurs twice.",
            lambda frequencies, n: learned_by(frequencies, n, least=1),
        ),
        Mistake(
            "The end mark is missing: the last letter of a word is written with </w>.",
            lambda frequencies, n: learned_by(frequencies, n, base=list),
        ),
        Mistake(
            "The end mark is a symbol of its own here; it belongs to the last letter.",
            lambda frequencies, n: learned_by(frequencies, n, base=lambda word: [*word, "</w>"]),
        ),
        Mistake(
            "The pairs are counted only once, at the beginning. Each merge makes new pairs: count again after it.",
            lambda frequencies, n: learned_by(frequencies, n, recount=False),
        ),
    ),
)

EXERCISES = (PAIR_COUNTS, MERGE, SEGMENT, COUNT_CHANGES, LEARN)
