"""The statistics of several seeds: how often they find what is not there, and that they find what is."""

import numpy as np
import pytest

from examples.paper import seeds

# Student's t for 0.975, by degrees of freedom, as tables print it.
QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 14: 2.145, 30: 2.042, 120: 1.980}


def test_p_values_are_those_of_printed_tables():
    for freedom, t in QUANTILES.items():
        assert seeds.p_value(t, freedom) == seeds.p_value(-t, freedom) == pytest.approx(0.05, abs=5e-5)
    assert seeds.p_value(1.959964, 10**6) == pytest.approx(0.05, abs=1e-5)  # the normal distribution
    for freedom in (1, 2, 3):
        assert seeds.p_value(0, freedom) == 1 and seeds.p_value(np.inf, freedom) < 1e-12


@pytest.mark.parametrize("sizes", [(3, 3), (3, 5), (5, 5), (9, 20)])
def test_equal_means_are_said_to_differ_in_one_case_of_twenty(rng, sizes):
    n = 4000
    found = np.mean([abs(seeds.compare(*(rng.standard_normal(size) for size in sizes))) for _ in range(n)])
    assert 0.02 < found < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5
    paired = np.mean([seeds.paired(rng.standard_normal(sizes[0]))[1] < 0.05 for _ in range(n)])
    assert abs(paired - 0.05) < 4 * (0.05 * 0.95 / n) ** 0.5


@pytest.mark.parametrize("sign", [-1, 1])
def test_means_differ_in_the_direction_of_their_difference(rng, sign):
    a = rng.standard_normal(3)
    assert seeds.compare(a + sign * 100, a) == sign and seeds.compare(a, a[::-1]) == 0
    assert seeds.compare(np.zeros(3) + sign, np.zeros(3)) == sign  # without any scatter
    assert seeds.compare(a[:1] + sign, a) == 0  # a single value has no standard error
    assert seeds.paired(np.full(3, float(sign))) == (sign * np.inf, pytest.approx(0, abs=1e-12))
    assert np.isnan(seeds.paired(a[:1])).all()


def test_of_many_comparisons_one_is_false_in_one_experiment_of_twenty(rng):
    """18 rows that equal a base: some row is said to differ in a third of the experiments, with correction in 5 %."""
    n, alarms = 600, np.zeros(2)
    for _ in range(n):
        values = rng.standard_normal((19, 3))
        p = [seeds.paired(row - values[0])[1] for row in values[1:]]
        alarms += min(p) < 0.05, seeds.holm(p).min() < 0.05
    assert alarms[0] / n > 0.25 and alarms[1] / n < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5


def test_holms_p_values_follow_his_steps():
    """The smallest of three times 3, the next times 2, never below the one before; NaN is no test."""
    np.testing.assert_allclose(seeds.holm([0.01, 0.04, np.nan, 0.03]), [0.03, 0.06, np.nan, 0.06])
    np.testing.assert_allclose(seeds.holm([0.6, 0.9]), [1, 1])


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n_seeds", [5, 25])
def test_tasks_solved_equally_often_are_said_to_differ_in_at_most_one_case_of_twenty(rng, chance, n_seeds):
    n, solved = 2000, lambda: (rng.random(n_seeds) < chance).astype(float)
    found = np.mean([abs(seeds.compare_solved(solved(), solved())) for _ in range(n)])
    assert found < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5


def test_solved_seeds_are_told_apart_as_fisher_counts():
    """Of the 252 ways to share 5 solved seeds out, 2 are as one-sided as 5 and 0: p = 0.008; 4 and 0 have 0.048."""
    accuracy = {solved: np.r_[np.ones(solved), np.full(5 - solved, 0.3)] for solved in range(6)}
    for a, b, sign in ((5, 0, 1), (0, 5, -1), (4, 0, 1), (3, 0, 0), (5, 1, 1), (5, 2, 0), (5, 5, 0), (0, 0, 0)):
        assert seeds.compare_solved(accuracy[a], accuracy[b]) == sign
    assert seeds.n_solved(accuracy[3]) == "3 of 5"
    assert seeds.compare_solved(accuracy[3] + 0.5, accuracy[0]) == 0  # 0.8 is not solved, and 3 of 5 is no difference


def test_ranks_of_equal_values_are_shared_as_spearman_does(rng):
    a, b = rng.permutation(12).astype(float), rng.permutation(12).astype(float)
    by_formula = 1 - 6 * ((a - b) ** 2).sum() / (12 * (12**2 - 1))  # Spearman's
    assert seeds.rank_correlation(a, b) == pytest.approx(by_formula)
    np.testing.assert_array_equal(seeds.ranks(np.array([5.0, 1.0, 5.0])), [2.5, 1, 2.5])
