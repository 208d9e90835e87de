"""Exercises of lesson 10: merges and the trainer here, the rest beside it."""

from course.exercise import Exercise, Mistake
from course.exercises.pair_counts import ALPHABETS, COUNT_CHANGES, PAIR_COUNTS, counted, neighbors, random_word
from course.exercises.segmentation import SEGMENT, TABLE, learned
from course.exercises.unigram import VITERBI
from minitransformer.text.bpe import merge_pair
from minitransformer.text.pretokenizers import EndOfWord

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
    at = neighbors(symbols).index(pair) if pair in neighbors(symbols) else None
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
        Mistake("A symbol that was just merged is used again: continue after both symbols.", merged_with_overlap),
        Mistake(
            "The order within the pair is ignored: (a, b) does not merge `b a`.",
            lambda symbols, pair: merge_pair(merge_pair(symbols, pair), pair[::-1]),
        ),
    ),
)


def _mirrored(symbols, pair):
    return merge_pair([s[::-1] for s in symbols][::-1], (pair[1][::-1], pair[0][::-1]))


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
        *(
            Mistake(
                "Two things: of equally frequent pairs take the one that sorts last; and stop when none occurs twice.",
                lambda frequencies, n, best=best: learned_by(frequencies, n, best=best, least=1),
            )
            for best in (
                lambda counts: min(counts, key=lambda pair: (-counts[pair], pair)),
                lambda counts: max(counts, key=counts.get),
            )
        ),
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

EXERCISES = (PAIR_COUNTS, MERGE, SEGMENT, COUNT_CHANGES, LEARN, VITERBI)
