"""Statistics of what several seeds have measured: means with standard errors, tests, ranks."""

import math
from collections.abc import Sequence

import numpy as np

LEVEL = 0.05
"""Of all tests: the share of false alarms where nothing differs."""
WELCH, FISHER = "Welch's t-test", "Fisher's exact test of the numbers of solved seeds"
VERDICTS = ["claim", "measured here", "verdict"]
"""Columns of the table with which a report begins."""
SOLVED = 0.9
"""Accuracy from which on a seed counts as solved, where a task is either learned or not."""


def tested_by(test: str) -> str:
    """What a report says of its test."""
    told = f"what is said to differ does so by {test} at the level of 5 %"
    return f"{told}, and what is not told apart is not shown to be equal"


def values_of(results: Sequence[dict], key: str, **chosen: object) -> np.ndarray:
    """``key`` of the results whose other keys have the chosen values, one row a seed."""
    rows = [result for result in results if all(result.get(name) == value for name, value in chosen.items())]
    return np.array([result[key] for result in sorted(rows, key=lambda result: result["seed"])])


def best_rate(results: Sequence[dict], **chosen: object) -> int:
    """Which of the learning rates has the lowest mean loss, where each result has a loss for every one of them."""
    return int(values_of(results, "loss", **chosen).mean(axis=0).argmin())


def at_best_rate(results: Sequence[dict], key: str, **chosen: object) -> np.ndarray:
    """Loss or accuracy at the best of the learning rates, one value a seed."""
    return values_of(results, key, **chosen)[:, best_rate(results, **chosen)]


def standard_error(values: np.ndarray) -> float:
    """Of the mean; NaN for a single value."""
    return values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def with_error(values: np.ndarray, digits: int) -> str:
    """Mean and standard error, as ``4.92 ± 0.03``; of a single value, no error."""
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {standard_error(values):.{digits}f}"


def p_value(t: float, freedom: int) -> float:
    """How often Student's t is at least so far from 0 if nothing differs  [Abramowitz & Stegun 1964, 26.7.3, 26.7.4]

    freedom: degrees of freedom, a whole number
    """
    angle, odd = math.atan(abs(t) / math.sqrt(freedom)), freedom % 2
    later = np.arange(odd + 2, freedom - 1, 2)  # the powers of the cosine in the sum after the first
    terms = math.cos(angle) ** odd * np.cumprod([1.0, *(math.cos(angle) ** 2 * (later - 1) / later)])
    inside = math.sin(angle) * (terms.sum() if freedom > 1 else 0.0)
    return float(max(1 - (2 / math.pi * (angle + inside) if odd else inside), 0.0))


def differences(results: Sequence[dict], key: str, row: str, other: str) -> np.ndarray:
    """``key`` of the results called ``row`` minus that of ``other``, for each seed that both have: seeds share data."""
    values = {name: {each["seed"]: each[key] for each in results if each["name"] == name} for name in (row, other)}
    seeds = sorted(values[row].keys() & values[other].keys())
    return np.array([values[row][seed] - values[other][seed] for seed in seeds])


def paired(differences: np.ndarray) -> tuple[float, float]:
    """Student's t of the mean of differences, seed by seed, and its p-value; NaN for a single one."""
    mean, error = differences.mean(), standard_error(differences)
    t = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    return (t, p_value(t, len(differences) - 1)) if len(differences) > 1 else (math.nan, math.nan)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """The p-values as they are if all are tested at once  [Holm 1979]; NaN is none and stays NaN."""
    p = np.array(p_values, dtype=float)
    order, n = np.argsort(p), np.isfinite(p).sum()  # NaN comes last
    p[order[:n]] = np.minimum(np.maximum.accumulate(p[order[:n]] * np.arange(n, 0, -1)), 1)
    return p


def compare(a: np.ndarray, b: np.ndarray) -> int:
    """1 if the mean of a is above that of b by Welch's t-test (two-sided, 5 %), -1 if below, or 0 if neither.

    A single value has no standard error, so that it differs from nothing.
    """
    if min(len(a), len(b)) < 2:
        return 0
    squares = np.array([standard_error(a), standard_error(b)]) ** 2
    difference, error = a.mean() - b.mean(), math.sqrt(squares.sum())
    if error == 0:
        return int(np.sign(difference))
    freedom = squares.sum() ** 2 / sum(squares**2 / [len(a) - 1, len(b) - 1])  # Welch-Satterthwaite
    return int(np.sign(difference)) if p_value(difference / error, int(freedom + 1e-9)) < LEVEL else 0


def relation(a: np.ndarray, b: np.ndarray) -> str:
    """`compare` in words."""
    return {1: "higher than", -1: "lower than", 0: "not told apart from"}[compare(a, b)]


def compare_solved(a: np.ndarray, b: np.ndarray) -> int:
    """1 if more of the accuracies a are `SOLVED` than of b by Fisher's exact test (two-sided, 5 %), -1 if fewer, or 0.

    For tasks that are either learned or not, where a mean of accuracies is that of no seed.
    """
    solved, sizes = [int((each >= SOLVED).sum()) for each in (a, b)], (len(a), len(b))
    total = sum(solved)
    possible = range(max(0, total - sizes[1]), min(total, sizes[0]) + 1)
    ways = {k: math.comb(sizes[0], k) * math.comb(sizes[1], total - k) for k in possible}
    as_rare = sum(way for way in ways.values() if way <= ways[solved[0]])
    difference = solved[0] / sizes[0] - solved[1] / sizes[1]
    return int(np.sign(difference)) if as_rare < LEVEL * sum(ways.values()) else 0


def n_solved(accuracies: np.ndarray) -> str:
    """As ``3 of 5``."""
    return f"{(accuracies >= SOLVED).sum()} of {len(accuracies)}"


def ranks(values: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal values share the mean of their ranks."""
    below = (values[None, :] < values[:, None]).sum(1)
    equal = (values[None, :] == values[:, None]).sum(1)
    return below + (equal + 1) / 2


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rho: the correlation of the ranks; NaN where all values of a side are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
