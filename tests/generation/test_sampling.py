"""Sampling: the tokens are distributed as the model says, and its options cut that distribution as their papers say."""

import numpy as np
import pytest
from small_models import VOCAB_SIZE, small_model

from minitransformer.config import EOS
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.generation import beam_search, greedy_search, sample
from minitransformer.generation.decoding import SUPPRESSED_IDS
from minitransformer.generation.sampling import draw_tokens

N = 20_000
PROBS = np.array([0, 0, 0.4, 0.3, 0.2, 0.1])
EVEN = (np.arange(N) + 0.5) / N
"""As many numbers as a histogram needs, spread evenly over 0 to 1: each share is exact up to 1 / N."""


def shares(temperature=1.0, top_k=0, top_p=1.0):
    order = np.random.default_rng(0).permutation(len(PROBS) - 2) + 2  # the ids of PROBS[2:]: none is sorted
    logits = np.zeros(len(PROBS))  # those that are suppressed would be the most probable
    logits[order] = np.log(PROBS[2:])
    tokens = draw_tokens(np.tile(logits, (N, 1)), EVEN, temperature, top_k, top_p)
    return (np.bincount(tokens, minlength=len(PROBS)) / N)[[*SUPPRESSED_IDS, *order]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.4, 0.3, 0.2, 0.1]),
        ({"temperature": 0.5}, np.square([0.4, 0.3, 0.2, 0.1]) / 0.3),
        ({"temperature": 0}, [1, 0, 0, 0]),
        ({"top_k": 3}, [4 / 9, 3 / 9, 2 / 9, 0]),
        ({"top_k": 99}, [0.4, 0.3, 0.2, 0.1]),
        ({"top_p": 0.5}, [4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 1e-9}, [1, 0, 0, 0]),
        ({"top_k": 2, "top_p": 0.5}, [1, 0, 0, 0]),
    ],
    ids=str,
)
def test_tokens_come_as_often_as_they_are_probable(options, expected):
    np.testing.assert_allclose(shares(**options), [0, 0, *expected], atol=2 / N)


def test_equally_probable_tokens_have_shares_of_equal_length():
    """A draw where two shares meet belongs to the second; half of the tokens have half of the probability."""
    logits, draws = np.zeros((4, 6)), np.array([0.0, 0.25, 0.5, 0.75])
    assert draw_tokens(logits, draws, 1.0, top_k=0, top_p=1.0).tolist() == [2, 3, 4, 5]
    assert draw_tokens(logits, draws, 1.0, top_k=0, top_p=0.5).tolist() == [2, 2, 3, 3]


@pytest.mark.parametrize("kind", ["transformer", "language_model"])
def test_at_temperature_zero_it_is_greedy_search(rng, kind):
    model, src = small_model(rng, kind=kind), np.array([[5, 6, 7, EOS], [8, EOS, 0, 0]])
    greedy = [hypothesis.ids for hypothesis in greedy_search(model, src, max_extra=9)]
    found = sample(model, src, temperature=0, max_tokens=9)
    for ids, longer in zip(found, greedy, strict=True):
        assert ids == longer[:9] and len(ids) <= 9


def test_a_seed_gives_the_same_tokens_and_another_seed_others(rng):
    model, prompts = small_model(rng, kind="language_model"), np.array([[EOS], [EOS]])
    one, again, other = (sample(model, prompts, max_tokens=30, seed=seed) for seed in (1, 1, 2))
    assert one == again != other
    assert one[0] != one[1]  # each prompt draws its own numbers
    assert all(0 < token < VOCAB_SIZE and token not in (EOS, *SUPPRESSED_IDS) for ids in one for token in ids)


def test_what_a_prompt_draws_depends_on_no_other_prompt(rng):
    model = small_model(rng, kind="language_model")
    found = [sample(model, np.array([[first, EOS], [8, EOS]]), max_tokens=30, seed=1) for first in range(4, VOCAB_SIZE)]
    assert len({len(ids) for ids, _ in found}) > 3  # the other ends sooner or later
    assert all(ids == found[0][1] for _, ids in found)


@pytest.mark.parametrize("search", [sample, greedy_search, beam_search])
def test_a_batch_without_sentences_has_no_outputs(rng, search):
    assert search(small_model(rng), np.zeros((0, 3), int)) == []


def test_learned_positions_bound_a_sample(rng):
    model = small_model(rng, kind="language_model", positions="learned")  # of 20 positions
    (ids,) = sample(model, np.array([[5, 6, 7, EOS]]), max_tokens=100, temperature=1e9, seed=5)
    assert len(ids) <= 17


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_tokens": 0}, {"max_tokens": 10**30}, {"temperature": -1.0}, {"temperature": np.inf}),
        *({"top_k": -1}, {"top_p": 0}, {"top_p": 2}, {"seed": -1}),
    ],
)
def test_options_out_of_range_are_refused(rng, wrong):
    with pytest.raises(ConfigError, match="sample: must have max_tokens >= 1"):
        sample(small_model(rng), np.array([[5, EOS]]), **wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_damaged_model_is_refused(rng, value):
    model = small_model(rng)
    model.parameters.data[:] = value
    with pytest.raises(ShapeError, match="must be numbers, got NaN"):
        sample(model, np.array([[5, EOS]]))
