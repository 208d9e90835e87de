"""The statistics of several seeds: how often they find what is not there, and that they find what is."""

import math
from itertools import product

import numpy as np
import pytest

from examples.paper import seeds

# Student's t by degrees of freedom as tables print it: for 0.975, and for 0.95.
QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 14: 2.145, 30: 2.042, 120: 1.980}
ONE_SIDED = {1: 6.314, 2: 2.920, 4: 2.132, 9: 1.833, 19: 1.729}


def test_p_values_are_those_of_printed_tables():
    for freedom, t in QUANTILES.items():
        assert seeds.p_value(t, freedom) == seeds.p_value(-t, freedom) == pytest.approx(0.05, abs=5e-5)
    assert seeds.p_value(1.959964, 10**6) == pytest.approx(0.05, abs=1e-5)  # the normal distribution
    for freedom in (1, 2, 3):
        assert seeds.p_value(0, freedom) == 1 and seeds.p_value(np.inf, freedom) < 1e-12


@pytest.mark.parametrize("n_seeds", [3, 5, 20])
def test_equal_means_are_said_to_differ_in_one_case_of_twenty(rng, n_seeds):
    n = 4000
    found = np.mean([seeds.paired(rng.standard_normal(n_seeds))[1] < seeds.LEVEL for _ in range(n)])
    assert abs(found - 0.05) < 4 * (0.05 * 0.95 / n) ** 0.5


@pytest.mark.parametrize("sign", [-1, 1])
def test_means_differ_in_the_direction_of_their_difference(rng, sign):
    scattered, exact = sign * 100 + rng.standard_normal(3), np.full(3, float(sign))
    assert seeds.paired(exact) == (sign * np.inf, pytest.approx(0, abs=1e-12))  # without any scatter
    several = [scattered, exact, scattered - scattered.mean(), scattered[:1]]
    assert np.isnan(seeds.paired(scattered[:1])).all()  # a single value has no standard error
    assert seeds.signs(several, [seeds.paired(each)[1] for each in several]) == [sign, sign, 0, 0]


def test_what_all_seeds_have_in_common_hides_nothing_from_pairs(rng):
    """Seeds scatter by 1, rows differ by 0.1: of the same values without their seeds nothing can be said."""
    of_seed, a, b = 1.0 * rng.standard_normal(5), 0.1 + 0.01 * rng.standard_normal(5), 0.01 * rng.standard_normal(5)
    results = [{"name": "row", "seed": i, "nll": value} for i, value in enumerate(of_seed + a)]
    results += [{"name": "base", "seed": i, "nll": value} for i, value in reversed([*enumerate(of_seed + b)])]
    results += [{"name": "base", "seed": 9, "nll": 100.0}]  # has no pair
    assert seeds.paired(seeds.differences(results, "nll", "row", "base"))[1] < 1e-3
    unpaired = 0.1 / math.hypot(seeds.standard_error(of_seed + a), seeds.standard_error(of_seed + b))
    assert seeds.p_value(unpaired, 8) > 0.5


def test_values_stand_in_the_order_of_seeds_whatever_the_order_of_results():
    results = [
        {"task": task, "seed": seed, "bleu": 10 * seed} for task, seed in (("a", 3), ("b", 2), ("a", 1), ("a", 2))
    ]
    assert seeds.values_of(results, "bleu", task="a").tolist() == [10, 20, 30]


def test_holms_p_values_follow_his_steps():
    """The smallest of three times 3, the next times 2, never below the one before; NaN is no test."""
    np.testing.assert_allclose(seeds.holm([0.01, 0.04, np.nan, 0.03]), [0.03, 0.06, np.nan, 0.06])
    np.testing.assert_allclose(seeds.holm([0.6, 0.9]), [1, 1])


@pytest.mark.parametrize("sign", [-1, 1])
def test_alike_is_what_has_its_90_percent_interval_within_the_bound(rng, sign):
    for freedom, t in ONE_SIDED.items():
        found = sign * (0.3 + rng.standard_normal(freedom + 1))
        bound = abs(found.mean()) + t * seeds.standard_error(found)  # the end of the interval that is farther from 0
        assert seeds.p_alike(found, bound) == pytest.approx(0.05, abs=5e-5)
        assert seeds.p_alike(found, 1.01 * bound) < 0.05 < seeds.p_alike(found, 0.99 * bound)
    assert seeds.p_alike(np.zeros(3), 0.1) == pytest.approx(0, abs=1e-12)
    assert np.isnan(seeds.p_alike(np.zeros(1), 0.1))


def test_signs_are_as_rare_as_counting_all_of_them_says():
    """Of the 128 ways to give 7 differences a sign, those whose signs are at least as unequal."""
    ways = [abs(sum(signs)) for signs in product((-1, 1), repeat=7)]
    for n_higher in range(8):
        differences = np.array([1] * n_higher + [0] * 3 + [-1] * (7 - n_higher))
        as_rare = np.mean([way >= abs(differences.sum()) for way in ways])
        assert seeds.p_of_signs(differences) == seeds.p_of_signs(-differences) == pytest.approx(as_rare)
    assert seeds.p_of_signs(np.zeros(5)) == 1
    assert seeds.p_of_signs(np.ones(5)) == 0.0625  # so that five pairs decide nothing
    assert seeds.p_of_signs(np.ones(100)) == 2**-99


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson():
    for n in (1, 5, 20):
        end = 0.025 ** (1 / n)  # in closed form where all or none are solved
        np.testing.assert_allclose(seeds.share_interval(n, n), (end, 1), atol=1e-3)
        np.testing.assert_allclose(seeds.share_interval(0, n), (0, 1 - end), atol=1e-3)
    np.testing.assert_allclose(seeds.share_interval(3, 5), (0.147, 0.947), atol=1e-3)  # as tables print it
    np.testing.assert_allclose(seeds.share_interval(10, 20), (0.272, 0.728), atol=1e-3)
    assert seeds.solved_share(np.array([0.89, 0.9, 1.0, 0.2, 1.0])) == "3 of 5 (15 to 95 %)"
