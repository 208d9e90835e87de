"""Options of greedy and beam search: output limits, length penalty, ties, and what is refused."""

import numpy as np
import pytest
from searches import ChainModel, V, both_searches, random_sources, sharp_model

from minitransformer import workers
from minitransformer.batch import pad_rows
from minitransformer.config import BOS, EOS, PAD, UNK
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.generation import Hypothesis, beam_search, decoding, greedy_search, length_penalty
from minitransformer.generation.decoding import top_k

A, B = 4, 5  # the two words of a chain model


def chain(after: dict[int, dict[int, float]]) -> ChainModel:
    """A model in which token y follows x with probability after[x][y]; all others are out of the question."""
    table = np.full((V, V), -1e9)
    for last, probabilities in after.items():
        for token, probability in probabilities.items():
            table[last, token] = np.log(probability)
    return ChainModel(table)


def endless() -> ChainModel:
    return chain({BOS: {A: 1.0}, A: {A: 1.0}, B: {A: 1.0}, UNK: {A: 1.0}})


@pytest.mark.parametrize("max_extra", [0, 1, 7])
def test_an_output_that_never_ends_is_cut_at_source_length_plus_max_extra(max_extra):
    src = random_sources(0, (2, 5, 1))
    lengths = [2 + max_extra, 5 + max_extra, 1 + max_extra]
    with np.errstate(divide="raise"):
        found = both_searches(endless(), src, max_extra=max_extra)
    assert [hypotheses[0].ids for hypotheses in found] == [[A] * n for n in lengths * 2]


def test_a_sentence_whose_limit_is_0_gives_the_empty_output():
    src = pad_rows([[EOS], [A, EOS]])
    empty, beam, also_empty, greedy = both_searches(endless(), src, max_extra=0)
    assert empty == also_empty == [Hypothesis([], 0.0, 0.0)]
    assert beam[0].ids == greedy[0].ids == [A]
    assert beam_search(endless(), src[:1], max_extra=0) == [empty]


def test_no_output_is_longer_than_the_learned_positions():
    model = sharp_model(0, positions="learned", max_positions=6)
    model.parameters.data[:] = 0.0  # all tokens equally probable
    beams = beam_search(model, random_sources(0, (5, 2)), beam_size=40, n_best=40)
    assert [max(len(h.ids) for h in found) for found in beams] == [6, 6]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.4, 1.5, 3.0])
def test_the_length_penalty_decides_between_short_and_long(alpha):
    """ln 0.5 / lp(1) = -0.693 against ln 0.4 / lp(3) = -0.916 / (8/6)^alpha: the longer one wins from alpha 0.97 on."""
    model = chain({BOS: {EOS: 0.5, A: 0.4, B: 0.1}, A: {B: 1.0}, B: {EOS: 1.0}})
    ((found,),) = beam_search(model, random_sources(0, (3,)), alpha=alpha)
    assert found.ids == ([] if alpha < 0.97 else [A, B])
    assert found.score == pytest.approx(np.log(0.5) if alpha < 0.97 else np.log(0.4) / (8 / 6) ** alpha)


KNOWN_EARLY = {
    "a tie goes to the first": ({BOS: {EOS: 0.5, A: 0.5}, A: {A: 1.0}}, 1, []),
    "two end in one step": ({BOS: {A: 0.5, B: 0.5}, A: {EOS: 0.9, A: 0.1}, B: {EOS: 0.9, A: 0.1}}, 2, [A]),
}


@pytest.mark.parametrize("name", KNOWN_EARLY)
def test_early_stop_comes_at_the_step_after_which_the_answer_is_known(name):
    after, known, ids = KNOWN_EARLY[name]
    for option in ({}, {"early_stop": True}, {"early_stop": False}):
        model = chain({B: {A: 1.0}, UNK: {A: 1.0}} | after)
        ((found,),) = beam_search(model, random_sources(0, (2,)), alpha=0.0, max_extra=4, **option)
        assert found.ids == ids and (len(model.steps) == known) == option.get("early_stop", True)


def test_the_defaults_of_searches_are_those_of_the_paper():
    """A beam of 4, alpha = 0.6, outputs up to 50 tokens longer than the source  [sec. 6.1]."""
    src, paper = random_sources(0, (2,)), {"alpha": 0.6, "max_extra": 50}
    for model in (endless(), chain({BOS: {EOS: 0.3, A: 0.5, B: 0.2}, A: {B: 1.0}, B: {EOS: 0.9, A: 0.1}})):
        assert beam_search(model, src) == beam_search(model, src, beam_size=4, n_best=1, early_stop=True, **paper)
        assert greedy_search(model, src) == greedy_search(model, src, **paper)
    assert len(greedy_search(endless(), src)[0].ids) == 52
    with pytest.raises(ConfigError, match="from 1 to beam_size = 4"):
        beam_search(endless(), src, n_best=5)


def test_length_penalty_follows_its_formula():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.0) == 1.0
    assert length_penalty(7, 1.0) == pytest.approx(2.0)
    assert length_penalty(19, 0.5) == pytest.approx(2.0)
    assert length_penalty(100_000, 100) == np.inf


def test_among_equals_the_first_to_end_then_the_lowest_ids_win():
    """All 40 tokens are equally probable, far more than the beam holds: EOS = 2, UNK = 3, 4, 5, ... are its best."""
    model, src = ChainModel(np.zeros((40, 40))), random_sources(0, (2,))
    assert greedy_search(model, src, max_extra=1)[0].ids == []
    (found,) = beam_search(model, src, beam_size=3, n_best=3, alpha=0.0, max_extra=1)
    assert [h.ids for h in found] == [[], [UNK], [UNK, UNK]]


@pytest.mark.parametrize("n_tokens", [22, 10_253])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_top_k_skips_suppressed_ids_and_prefers_lower_ids_among_equals(n_tokens, n_threads, rng, monkeypatch):
    monkeypatch.setattr(decoding, "LARGE", 1)
    monkeypatch.setattr(workers, "product_threads", lambda: n_threads)
    monkeypatch.setattr(decoding, "BLOCK_ROWS", 7)
    for n in (1, 3, 8, 17, 20):
        # many ties, also between what is taken and what is not
        values = rng.exponential(n_tokens / 4, (60, n_tokens)) if n % 2 else rng.integers(0, 6, (60, n_tokens))
        logits = -np.round(values).astype(float)
        logits[::2, -3:] = [1.0, 2.0, 1.0]
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        log_probs[:, [PAD, BOS]] = -np.inf
        allowed = np.arange(n_tokens) != (rng.integers(UNK, n_tokens, (60, 1)) if n < 20 else PAD)
        log_probs[~np.broadcast_to(allowed, log_probs.shape)] = -np.inf
        ids, found = top_k(logits.copy(), n, np.broadcast_to(allowed, logits.shape))
        expected = np.sort(np.argsort(-log_probs, axis=1, kind="stable")[:, :n], axis=1)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_allclose(found, np.take_along_axis(log_probs, expected, axis=1), rtol=1e-13)


def test_log_probabilities_are_exact_beside_large_logits_in_float32(rng):
    logits = (1e4 + rng.standard_normal((3, 7))).astype(np.float32)
    wanted = logits - np.float64(1e4)
    wanted -= np.log(np.exp(wanted).sum(axis=1, keepdims=True))
    ids, found = top_k(logits, 5)
    np.testing.assert_array_equal(ids, [range(2, 7)] * 3)  # all but PAD and BOS
    np.testing.assert_allclose(found, wanted[:, 2:], atol=1e-6)


BAD_ALPHAS = [(search, {"alpha": alpha}) for search in (greedy_search, beam_search) for alpha in (-0.1, 100.1, np.nan)]
BAD_SIZES = [(beam_search, options) for options in ({"beam_size": 0}, {"n_best": 5}, {"n_best": 0})]


@pytest.mark.parametrize(("search", "options"), BAD_ALPHAS + BAD_SIZES)
def test_options_out_of_range_are_refused(search, options):
    with pytest.raises(ConfigError, match=f"{next(iter(options))} must be "):
        search(sharp_model(0), random_sources(0), **options)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_wrong_sources_and_damaged_models_are_refused(search):
    model = sharp_model(0)
    with pytest.raises(ConfigError, match="max_extra must be at least 0, got -1"):
        search(model, random_sources(0), max_extra=-1)
    with pytest.raises(ShapeError, match="src_ids must be"):
        search(model, random_sources(0)[0])
    with pytest.raises(ShapeError, match="src_ids must hold ids in 0..5"):
        search(model, random_sources(0) + 10)
    model.parameters.data[:] = np.nan
    with pytest.raises(ShapeError, match="must be numbers, got NaN"):
        search(model, random_sources(0))
