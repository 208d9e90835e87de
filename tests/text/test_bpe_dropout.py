"""BPE dropout: what it draws against the definition, text that is kept, batches of the lengths that were drawn."""

import random
from collections import Counter
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from odd_text import BY_BYTES, BY_WORDS, TEXT, random_line

from minitransformer.config import EOS
from minitransformer.text import BatchStream, Tokenizer, encode_parallel
from minitransformer.text.bpe import apply_merges, apply_merges_with_dropout
from minitransformer.text.bpe_dropout import RedrawnStream, draw_pairs
from minitransformer.training.micro_batches import MicroBatches

MERGES = [("a", "b"), ("ab", "c"), ("b", "a"), ("ab", "ab"), ("c", "a")]
RANKS = {pair: rank for rank, pair in enumerate(MERGES)}


def probabilities(symbols, p):
    """How likely each segmentation is, by going through all sets of merges that a step may leave out  [alg. 1]."""
    possible = [(RANKS[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in RANKS]
    found = Counter()
    for kept in product([False, True], repeat=len(possible)):
        likely = (1 - p) ** sum(kept) * p ** (len(kept) - sum(kept))
        if not any(kept):
            found[symbols] += likely
            continue
        _, at = min(merge for merge, is_kept in zip(possible, kept, strict=True) if is_kept)
        after = (*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :])
        for result, chance in probabilities(after, p).items():
            found[result] += likely * chance
    return found


def strays(segment, p, n=4000):
    """Whether some segmentation of a word comes more, or less often than it should by five standard errors."""
    draw = random.Random(7).random
    for word in ("ababc", "cab", "abba"):
        counts = Counter(tuple(segment(list(word), RANKS, p, draw)) for _ in range(n))
        expected = probabilities(tuple(word), p)
        if any(abs(counts[each] / n - q) > 5 * (q * (1 - q) / n) ** 0.5 + 1e-12 for each, q in expected.items()):
            return True
    return False


def once_a_word(symbols, ranks, p, draw):
    """A fault: each merge is left out, or not, for the whole word."""
    return apply_merges(symbols, {pair: rank for pair, rank in ranks.items() if draw() >= p})


@pytest.mark.parametrize("p", [0.1, 0.4])
def test_segmentations_come_as_often_as_the_definition_says(p):
    assert sum(probabilities(tuple("ababc"), p).values()) == pytest.approx(1)
    assert not strays(apply_merges_with_dropout, p)
    assert strays(once_a_word, p)


def test_nothing_left_out_is_plain_and_everything_left_out_is_symbols():
    rng = random.Random(3)
    for _ in range(300):
        word = rng.choices("abcx", k=rng.randint(0, 12))
        for draw in (rng.random, lambda: 0.0):
            assert apply_merges_with_dropout(word, RANKS, 0.0, draw) == apply_merges(word, RANKS)
        assert apply_merges_with_dropout(word, RANKS, 0.5, lambda: 0.0) == word


def test_any_segmentation_decodes_to_the_text():
    rng = random.Random(4)
    n_plain = n_drawn = 0
    for line in TEXT + [random_line(rng) for _ in range(200)]:
        for tokenizer in (BY_BYTES, BY_WORDS):
            plain, drawn = tokenizer.encode(line), tokenizer.encode_with_dropout(line, 0.3, rng.random)
            assert tokenizer.decode(drawn) == tokenizer.decode(plain)
            assert tokenizer.encode_with_dropout(line, 0.0, rng.random) == plain
            n_plain, n_drawn = n_plain + len(plain), n_drawn + len(drawn)
        assert BY_BYTES.decode(BY_BYTES.encode_with_dropout(line, 0.9, rng.random)) == line
    assert n_drawn > n_plain


@pytest.fixture(scope="module")
def text():
    """(a draw of an epoch, the plain pairs, what `draw_pairs` was given)"""
    rng = np.random.default_rng(5)
    lines = [" ".join(rng.choice(["bushes", "dogs", "a", "running"], rng.integers(1, 9))) for _ in range(600)]
    sides = lines[:300], lines[300:]
    tokenizer = Tokenizer.train(lines, 60, mode="words")
    kept = encode_parallel(tokenizer, *sides, max_length=40)
    facts = {"tokenizer": tokenizer, "lines": sides, "plain": (kept.src, kept.tgt), "p_drop": 0.2}
    return partial(draw_pairs, **facts, seed=0, longest=60), (kept.src, kept.tgt), facts


def test_each_line_is_drawn_from_seed_epoch_line_and_side_alone(text):
    draw, plain, facts = text
    assert draw(4) == draw(4) and draw(4) != draw(5)
    assert draw_pairs(4, **facts, seed=4, longest=60) != draw(4)
    same = ["running bushes dogs bushes"] * 40
    lines = {"lines": (same, same), "plain": ([[]] * 40, [[]] * 40)}
    src, tgt = draw_pairs(0, **facts | lines, seed=0, longest=60)
    assert len({tuple(ids) for ids in src}) > 5 and src != tgt
    fewer = {name: tuple(side[:7] for side in sides) for name, sides in lines.items()}
    assert draw_pairs(0, **facts | fewer, seed=0, longest=60) == (src[:7], tgt[:7])


def test_a_line_that_is_drawn_too_long_stays_plain(text):
    _, plain, facts = text
    longest = 1 + max(len(ids) for side in plain for ids in side)
    drawn, free = (draw_pairs(2, **facts, seed=0, longest=n) for n in (longest, 10**6))
    assert max(len(ids) for side in free for ids in side) >= longest
    for new, wild, old in zip(drawn[1], free[1], plain[1], strict=True):
        assert new == (wild if len(wild) < longest else old)


def test_batches_are_planned_by_the_lengths_that_were_drawn(text):
    draw, _, _ = text
    budgets = {"src_tokens": 120, "tgt_tokens": 100, "seed": 2}
    stream = RedrawnStream(draw, **budgets)
    in_order, asked, n = MicroBatches(stream, 1), MicroBatches(stream, 1), stream.batches_per_epoch
    own = [BatchStream(*draw(epoch), **budgets).batches_per_epoch for epoch in range(5)]
    assert n == own[0] and min(own) < n < max(own)
    expected = [batch for update in range(1, 5 * n + 1) for batch in in_order.of_rank(update)]
    for number in np.random.default_rng(1).permutation(5 * n)[:10].tolist():
        (batch,), (epoch, _) = asked.of_rank(number + 1), stream.position(number)
        assert all(np.array_equal(getattr(batch, name), getattr(expected[number], name)) for name in vars(batch))
        assert asked.n_tgt_tokens(number + 1) == batch.n_tgt_tokens
        assert batch.src.size <= 120 and batch.tgt_in.size <= 100
        drawn = draw(epoch)[1]
        assert [ids[ids > EOS].tolist() for ids in batch.tgt_out] == [drawn[row] for row in batch.rows]
    for epoch, size in enumerate(own):
        seen = Counter(row for batch in expected[epoch * n : (epoch + 1) * n] for row in batch.rows.tolist())
        assert size > n or seen.keys() == set(range(300))
        assert size < n or max(seen.values()) == 1
        assert size >= n or expected[epoch * n + size].rows.tolist() == expected[epoch * n].rows.tolist()
    assert list(asked.shapes(n)) == [(*batch.src.shape, batch.tgt_in.shape[1]) for batch in expected[:n]]
