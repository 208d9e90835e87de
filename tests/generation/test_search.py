"""Which hypotheses greedy and beam search find: compared with exhaustive search, and with each other."""

import numpy as np
import pytest
from searches import (
    SEEDS,
    ChainModel,
    UncachedModel,
    V,
    assert_same,
    every_output,
    exhaustive_search,
    random_sources,
    sharp_model,
    slow_beam_search,
    source_length,
)

from minitransformer.config import BOS, EOS, PAD
from minitransformer.generation import beam_search, greedy_search


@pytest.mark.parametrize("seed", SEEDS)
def test_search_with_the_cache_equals_search_without(seed):
    model, src = sharp_model(seed, vocab_size=9, n_layers=2), random_sources(seed, (3, 6, 1, 4), 9)
    slow = UncachedModel(model)
    assert_same(greedy_search(model, src, max_extra=5), greedy_search(slow, src, max_extra=5))
    fast_beams = beam_search(model, src, beam_size=3, n_best=3, max_extra=5)
    for found, expected in zip(fast_beams, beam_search(slow, src, beam_size=3, n_best=3, max_extra=5), strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_search_takes_the_most_probable_token_at_each_step(seed):
    model, src = sharp_model(seed), random_sources(seed)
    for row, found in zip(src, greedy_search(model, src, max_extra=4), strict=True):
        tokens = []
        while tokens[-1:] != [EOS] and len(tokens) < source_length(row) + 4:
            logits = model(row[None], np.array([[BOS, *tokens]])).data[0, -1]
            tokens.append(max((token for token in range(V) if token not in (PAD, BOS)), key=lambda t: logits[t]))
        assert found.ids == [token for token in tokens if token != EOS]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_of_one_equals_greedy_search(seed, alpha):
    model, src = sharp_model(seed), random_sources(seed, (1, 5, 3, 2))
    beams = beam_search(model, src, beam_size=1, alpha=alpha, max_extra=6)
    assert_same([first for (first,) in beams], greedy_search(model, src, alpha=alpha, max_extra=6))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_wide_enough_ranks_every_output_as_exhaustive_search_does(seed, alpha):
    model, src = sharp_model(seed), random_sources(seed, (1, 3, 2))
    width = len(every_output(5))
    beams = beam_search(model, src, beam_size=width, alpha=alpha, max_extra=2, n_best=width)
    for row, found in zip(src, beams, strict=True):
        assert_same(found, exhaustive_search(model, row, source_length(row) + 2, alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_beam_search_equals_a_slow_one_written_with_lists(beam_size, alpha):
    """The slow one never stops early, has no cache and searches for one sentence at a time."""
    for seed in SEEDS:
        model, src = sharp_model(seed, vocab_size=9), random_sources(seed, (1, 4, 2), 9)
        beams = beam_search(model, src, beam_size=beam_size, alpha=alpha, max_extra=3, n_best=2)
        for source, found in zip(src, beams, strict=True):
            assert_same(found, slow_beam_search(model, source, beam_size, alpha, source_length(source) + 3)[:2])


@pytest.mark.parametrize("n_best", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_early_stop_never_changes_the_answer_and_saves_work(n_best, alpha, rng):
    rows = {True: 0, False: 0}
    for seed in range(150):
        table = rng.uniform(1.0, 6.0) * rng.standard_normal((9, 9))
        table[:, EOS] -= rng.uniform(0.0, 6.0)  # models whose outputs are short, and models whose outputs are long
        found = {}
        for early_stop in (True, False):
            model = ChainModel(table)
            options = dict(beam_size=4, alpha=alpha, n_best=n_best, max_extra=5, early_stop=early_stop)
            found[early_stop] = beam_search(model, random_sources(seed, (2, 4), 9), **options)
            rows[early_stop] += sum(model.steps)
        assert found[True] == found[False]
    if alpha < 2.0 and n_best < 4:  # four need an empty beam; a high alpha lets long outputs win
        assert rows[True] < rows[False]


def test_search_goes_on_while_the_last_of_the_n_best_may_change():
    """After two steps three outputs have ended, and the third, B with 0.05, is not the answer: B A has 0.09."""
    (a, b), table = (4, 5), np.full((V, V), -1e9)
    table[BOS, [EOS, a, b]] = np.log([0.5, 0.3, 0.2])
    table[a, [EOS, b]], table[b, [EOS, a]] = np.log([0.6, 0.4]), np.log([0.25, 0.75])
    (found,) = beam_search(ChainModel(table), random_sources(0, (2,)), beam_size=6, n_best=3, alpha=0.0)
    assert [h.ids for h in found] == [[], [a], [b, a]]
    np.testing.assert_allclose(np.exp([h.score for h in found]), [0.5, 0.18, 0.09])


# --- sentences of a batch


def test_a_sentence_that_is_done_is_no_longer_computed():
    """So a batch costs as many rows of the decoder as its sentences cost one by one."""
    for seed in SEEDS:
        model, src = sharp_model(seed, vocab_size=9), random_sources(seed, (3, 1, 7), 9)
        for search in (greedy_search, beam_search):
            together, alone = UncachedModel(model), UncachedModel(model)
            search(together, src, max_extra=6)
            for source in src:
                search(alone, source[None], max_extra=6)
            assert sum(together.steps) == sum(alone.steps)
