"""Exercises of lesson 10: a word cut by learned merges."""

from itertools import islice

from course.exercise import Exercise, Mistake
from course.exercises.pair_counts import ALPHABETS, neighbors, random_word
from minitransformer.text.bpe import apply_merges, merge_pair
from minitransformer.text.learn_merges import learn_merges
from minitransformer.text.pretokenizers import EndOfWord

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
    while any(pair in merges for pair in neighbors(symbols)):
        at = next(at for at, pair in enumerate(neighbors(symbols)) if pair in merges)
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]
    return symbols


def last_first(word, merges):
    """Again and again, everywhere, the merge of the list that was learned last of those that apply."""
    symbols = EndOfWord.symbols(word)
    while applicable := [pair for pair in merges if pair in neighbors(symbols)]:
        symbols = merge_pair(symbols, applicable[-1])
    return symbols


def one_walk_backwards(word, merges):
    symbols = EndOfWord.symbols(word)
    for pair in merges[::-1]:
        symbols = merge_pair(symbols, pair)
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
        *(
            Mistake(
                "The merge learned last is applied first. Later merges join what earlier ones made: begin with the "
                "first.",
                wrong,
            )
            for wrong in (lambda word, merges: segment(word, merges[::-1]), last_first, one_walk_backwards)
        ),
        Mistake(
            "The longest known subword is taken from the left. Training merged in the order of learning; do likewise.",
            longest_first,
        ),
        Mistake(
            "The leftmost pair that is in the list is merged; merge the one learned first, wherever it stands.",
            leftmost_pair,
        ),
        Mistake(
            "Only one merge is applied. Begin again until no pair of neighbors is in the list.",
            lambda word, merges: merge_pair(EndOfWord.symbols(word), _first_of(word, merges)),
        ),
        Mistake("No merge is applied: these are the letters.", lambda word, merges: EndOfWord.symbols(word)),
    ),
)


def _first_of(word, merges):
    present = set(neighbors(EndOfWord.symbols(word)))
    return next((pair for pair in merges if pair in present), ("", ""))
