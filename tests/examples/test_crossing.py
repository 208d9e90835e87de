"""When a curve overtakes another: where it does, what the seeds say, and how often it is said of equal ones."""

import numpy as np
import pytest

from examples.paper.crossing import Curve, Overtaking, crossing

MINUTES = np.array([2.5, 5, 10, 20, 40, 80])


def beside(difference, noise=((0.0,) * 6,) * 3) -> Overtaking:
    """A curve that is above another by this and by the noise of each seed; the seeds' own differences are in both."""
    base = {seed: 30 + 5 * np.log2(MINUTES) + seed for seed in range(1, len(noise) + 1)}
    first = {seed: values + difference + noise[seed - 1] for seed, values in base.items()}
    return Overtaking(Curve("first", MINUTES, first), Curve("second", MINUTES, base))


@pytest.mark.parametrize("at", [3.0, 7.3, 20.0, 79.0])
def test_a_curve_crosses_where_its_difference_is_0_and_not_where_it_dips_again(at):
    pair = beside(np.log2(MINUTES / at))
    assert pair.of_mean == pytest.approx(at) and pair.of_seeds == pytest.approx([at] * 3)
    assert pair.difference(at) == pytest.approx(0, abs=1e-9)
    dips = np.where(MINUTES == 40, -1.0, np.abs(np.log2(MINUTES / at)) + 0.1)  # above, but once, at 40
    assert 40 < crossing(MINUTES, dips) < 80


@pytest.mark.parametrize(
    ("difference", "noise", "told"),
    [
        (np.log2(MINUTES / 20), (-0.02, 0.0, 0.02), "crosses at 20 minutes"),
        (np.log2(MINUTES / 20), (-0.5, 0.0, 0.5), "crosses at 20 minutes (14 to 28)"),
        (
            np.log2(MINUTES / 20),
            (-1.5, -2.5, 0.5),
            "open: crosses at 45 minutes (14 to beyond 80), and not significantly different",
        ),
        (np.log2(MINUTES / 200), (-0.1, 0.0, 0.1), "does not cross up to 80 minutes"),
        (np.log2(MINUTES / 200), (-2.0, 0.0, 2.0), "open: does not cross up to 80 minutes (50 to beyond 80), and not"),
        (np.log2(MINUTES), (-0.1, 0.0, 0.1), "ahead from 2.5 minutes, the first point, on"),
        (np.log2(MINUTES / 4), (-0.8, 0.0, 0.8), "crosses at 4.0 minutes (before 2.5 to 7.0)"),
        (np.log2(MINUTES / 20), (0.0,), "open: crosses at 20 minutes (one seed)"),
        (np.zeros(6), (0.0, 0.0, 0.0), "open: does not cross up to 80 minutes, and not significantly different at 80"),
    ],
)
def test_the_verdict_names_the_minute_the_range_of_the_seeds_and_what_is_open(difference, noise, told):
    verdict = beside(difference, [[each] * 6 for each in noise]).verdict()
    assert verdict.startswith(told) and verdict.startswith("open") == told.startswith("open")


def test_seeds_are_paired_and_curves_of_other_lengths_and_minutes_are_compared_where_both_are(rng):
    noise = 20 * rng.standard_normal(3)[:, None] + np.zeros(6)  # hides a difference of 1, but for pairs
    first = Curve("first", MINUTES, {seed: noise[seed] + 1 + 0.01 * seed for seed in range(3)})
    second = Curve("second", [5, 7, 30], {seed: noise[seed][:3] for seed in (2, 1, 0)})
    pair = Overtaking(first, second)
    assert pair.minutes.tolist() == [5, 7, 10, 20, 30]
    assert pair.verdict() == "ahead from 5.0 minutes, the first point, on"
    shorter = Curve("second", MINUTES, {1: noise[1], 2: noise[2][:4], 9: noise[0]})
    assert shorter.minutes.tolist() == [2.5, 5, 10, 20]
    np.testing.assert_allclose(Overtaking(first, shorter).difference(20), [1.01, 1.02])
    for other in (Curve("of another seed", MINUTES, {9: noise[0]}), Curve("of other minutes", [90, 99], {1: [1, 2]})):
        assert Overtaking(first, other).verdict() == "open: no seed, or no minutes, that both have"


def test_the_bar_at_a_point_is_the_standard_error_over_its_seeds():
    curve = Curve("first", MINUTES[:2], {1: [1.0, 7.0], 2: [2.0, 7.0], 3: [3.0, 7.0]})
    assert curve.error() == pytest.approx([3**-0.5, 0.0])
    assert Curve("first", MINUTES[:2], {1: [1.0, 7.0]}).error().tolist() == [0.0, 0.0]


def test_equal_curves_are_said_to_cross_or_not_to_in_one_experiment_of_twenty(rng):
    n, told = 600, 0
    for _ in range(n):
        told += not beside(np.zeros(6), rng.standard_normal((3, 6))).verdict().startswith("open")
    assert told / n < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5
