"""The hook of both searches that says which tokens may come next."""

import numpy as np
import pytest
from searches import SEEDS, V, both_searches, every_output, outputs_log_probs, random_sources, ranked, sharp_model

from minitransformer.config import BOS, EOS, PAD
from minitransformer.errors import ShapeError
from minitransformer.generation import beam_search, greedy_search

BOTH = pytest.mark.parametrize("search", [greedy_search, beam_search])


def without(token: int):
    return lambda prefixes: np.tile(np.arange(V) != token, (len(prefixes), 1))


def of_length(n: int):
    """Outputs of n tokens and EOS."""

    def allowed(prefixes):
        return np.tile((np.arange(V) == EOS) == (prefixes.shape[1] == n), (len(prefixes), 1))

    return allowed


def no_token_twice(prefixes):
    """Depends on each prefix: a word that is there already may not follow."""
    mask = np.ones((len(prefixes), V), bool)
    for row, prefix in zip(mask, prefixes, strict=True):
        row[prefix] = False
    return mask


@pytest.mark.parametrize("seed", SEEDS)
def test_a_forbidden_token_is_never_generated(seed):
    model, src = sharp_model(seed), random_sources(seed)
    free = {token for found in both_searches(model, src, max_extra=4) for each in found for token in each.ids}
    assert free, "each of these is generated without the mask"
    for token in free:
        for found in both_searches(model, src, max_extra=4, allowed=without(token)):
            assert found and all(token not in each.ids for each in found)


@BOTH
@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_grammar_forces_a_length(n, search):
    found = search(sharp_model(1), random_sources(1), max_extra=4, allowed=of_length(n))
    assert [len((each[0] if isinstance(each, list) else each).ids) for each in found] == [n] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wide_beam_finds_the_best_of_all_outputs_that_are_allowed(seed):
    """Log-probabilities stay those of the model, over all tokens."""
    model, src = sharp_model(seed), random_sources(seed, (1,))
    outputs = [output for output in every_output(3) if len(set(output)) == len(output)]
    expected = ranked(zip(outputs, outputs_log_probs(model, src[0], outputs), strict=True), 0.6)
    (found,) = beam_search(model, src, beam_size=100, n_best=100, max_extra=2, early_stop=False, allowed=no_token_twice)
    assert sorted(each.ids for each in found) == sorted(each.ids for each in expected)
    assert found[0].ids == expected[0].ids
    assert found[0].log_prob == pytest.approx(expected[0].log_prob, rel=1e-9)


@BOTH
def test_everything_allowed_changes_nothing_and_suppressed_ids_stay_so(search):
    model, src = sharp_model(2), random_sources(2)
    model.parameters["embedding"].data[[PAD, BOS]] *= 5.0  # often the most probable

    def all_of_them(prefixes):
        return np.broadcast_to(np.array(True), (len(prefixes), V))  # read-only: a search must not write into it

    assert search(model, src, allowed=all_of_them) == search(model, src)


@BOTH
def test_prefixes_are_the_tokens_generated_so_far(search):
    seen = []

    def allowed(prefixes):
        seen.append(prefixes.copy())
        return without(EOS)(prefixes)

    found = search(sharp_model(3), random_sources(3, (2,)), max_extra=2, allowed=allowed)
    (best,) = found[0] if isinstance(found[0], list) else found
    assert [prefixes.shape[1] for prefixes in seen] == [0, 1, 2, 3]
    assert all(best.ids[:t] in prefixes.tolist() for t, prefixes in enumerate(seen))


@BOTH
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((3, V)), r"allowed must give a boolean \(3, 6\) array, got float64 \(3, 6\)"),
        (np.ones(V, bool), r"allowed must give a boolean \(3, 6\) array, got bool \(6,\)"),
        (np.arange(3)[:, None] * np.ones(V) != 1, "allowed must let a token follow every prefix, got none for row 1"),
        (np.tile(np.arange(V) == BOS, (3, 1)), "allowed must let a token follow every prefix, got none for row 0"),
    ],
)
def test_a_mask_that_is_none_is_refused(mask, message, search):
    with pytest.raises(ShapeError, match=message):
        search(sharp_model(0), random_sources(0), allowed=lambda prefixes: mask)
