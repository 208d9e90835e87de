"""Statistics over several seeds: means with standard errors, paired tests, equivalence tests, intervals.

Results with the same seed share data, its order or the initial weights, so that all comparisons are paired by seed, and
the p-values of a table are corrected for multiple testing.
"""

import math
from collections.abc import Sequence

import numpy as np

LEVEL = 0.05
"""The significance level of all tests: the rate of false positives where nothing differs."""
STUDENT = "Student's t-test, paired by seed,"
MCNEMAR = "McNemar's exact test on the seeds with which only one of the two has solved the task,"
VERDICTS = ["claim", "measured here", "verdict"]
"""Columns of the table with which a report begins."""
NOT_ALIKE = "open: not shown to be equivalent"
SOLVED = 0.9
"""The accuracy from which a seed counts as solved, for tasks at which a training either succeeds or fails."""


def tested_by(test: str) -> str:
    """What a report says about its test."""
    tested = f"differences are tested with {test} at a significance level of 5 %, with Holm's correction"
    return f"{tested}; a difference that is not significant does not show equality"


def values_of(results: Sequence[dict], key: str, **chosen: object) -> np.ndarray:
    """``key`` of the results whose other keys have the chosen values, one row per seed."""
    rows = [result for result in results if all(result.get(name) == value for name, value in chosen.items())]
    return np.array([result[key] for result in sorted(rows, key=lambda result: result["seed"])])


def best_rate(results: Sequence[dict], **chosen: object) -> int:
    """The index of the learning rate with the lowest mean loss; each result has a loss for every rate."""
    return int(values_of(results, "loss", **chosen).mean(axis=0).argmin())


def at_best_rate(results: Sequence[dict], key: str, **chosen: object) -> np.ndarray:
    """Loss or accuracy at the best learning rate, one value per seed."""
    return values_of(results, key, **chosen)[:, best_rate(results, **chosen)]


def at_the_edge(models: Sequence[str]) -> str:
    """What a page says about models for which the lowest or highest rate tried was chosen; empty without any."""
    names = ", ".join(f'"{model}"' for model in models)  # they have commas of their own
    return f"For {names} the lowest or highest learning rate tried was chosen; another may be better." if models else ""


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean; NaN for a single value."""
    return values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def with_error(values: np.ndarray, digits: int) -> str:
    """Mean and standard error, as ``4.92 ± 0.03``; for a single value, no error."""
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {standard_error(values):.{digits}f}"


def p_value(t: float, freedom: int) -> float:
    """How often Student's t is at least this far from 0 if nothing differs  [Abramowitz & Stegun 1964, 26.7.3, 26.7.4]

    freedom: degrees of freedom, an integer
    """
    angle, odd = math.atan(abs(t) / math.sqrt(freedom)), freedom % 2
    later = np.arange(odd + 2, freedom - 1, 2)  # the powers of the cosine in the sum after the first
    terms = math.cos(angle) ** odd * np.cumprod([1.0, *(math.cos(angle) ** 2 * (later - 1) / later)])
    inside = math.sin(angle) * (terms.sum() if freedom > 1 else 0.0)
    return float(max(1 - (2 / math.pi * (angle + inside) if odd else inside), 0.0))


def differences(results: Sequence[dict], key: str, row: str, other: str) -> np.ndarray:
    """``key`` of ``row`` minus ``key`` of ``other``, for each seed that both have: a seed fixes the data."""
    values = {name: {each["seed"]: each[key] for each in results if each["name"] == name} for name in (row, other)}
    seeds = sorted(values[row].keys() & values[other].keys())
    return np.array([values[row][seed] - values[other][seed] for seed in seeds])


def paired(differences: np.ndarray) -> tuple[float, float]:
    """Student's t of the mean difference, paired by seed, and its p-value; NaN for a single seed."""
    mean, error = differences.mean(), standard_error(differences)
    t = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    return (t, p_value(t, len(differences) - 1)) if len(differences) > 1 else (math.nan, math.nan)


def p_alike(differences: np.ndarray, bound: float) -> float:
    """The p-value of an equivalence test, the larger of two one-sided t-tests: that the mean difference is above -bound
    and that it is below bound, which was set in advance  [Schuirmann 1987]

    bound: positive, in the unit of the differences
    """
    t, p = paired(abs(differences.mean()) - bound + differences - differences.mean())
    return p / 2 if t < 0 else 1 - p / 2


def p_of_signs(differences: np.ndarray) -> float:
    """How often the nonzero differences are split between the two signs at least this unevenly, if both are equally
    likely.

    For what one has solved minus what the other has solved, this is the exact test of McNemar 1947.
    """
    n, fewer = int(np.count_nonzero(differences)), min((differences > 0).sum(), (differences < 0).sum())
    return min(2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n, 1.0)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """The p-values corrected for testing all of them at once  [Holm 1979]; NaN is no p-value and stays NaN."""
    p = np.array(p_values, dtype=float)
    order, n = np.argsort(p), np.isfinite(p).sum()  # NaN comes last
    p[order[:n]] = np.minimum(np.maximum.accumulate(p[order[:n]] * np.arange(n, 0, -1)), 1)
    return p


def signs(differences: Sequence[np.ndarray], p_values: Sequence[float]) -> list[int]:
    """For each of the differences of a table: 1 or -1 if it is significantly above or below 0, else 0."""
    return [int(np.sign(each.mean())) if p < LEVEL else 0 for each, p in zip(differences, holm(p_values), strict=True)]


def solved(accuracies: np.ndarray) -> np.ndarray:
    """1 for each accuracy that counts as `SOLVED`, else 0."""
    return (accuracies >= SOLVED).astype(int)


def n_solved(accuracies: np.ndarray) -> str:
    """As ``3 of 5``."""
    return f"{solved(accuracies).sum()} of {len(accuracies)}"


def solved_share(accuracies: np.ndarray) -> str:
    """With the exact confidence interval of the share, as ``3 of 5 (15 to 95 %)``."""
    low, high = share_interval(solved(accuracies).sum(), len(accuracies))
    return f"{n_solved(accuracies)} ({100 * low:.0f} to {100 * high:.0f} %)"


def share_interval(k: int, n: int) -> tuple[float, float]:
    """The exact 95 % confidence interval of a share, k of n, to 0.001: the lowest and the highest share under which
    neither k or more nor k or fewer are rarer than 2.5 %  [Clopper & Pearson 1934]"""
    shares, i = np.linspace(0, 1, 1001), np.arange(n + 1)
    n_ways = np.array([math.comb(n, each) for each in i], float)
    chances = n_ways * shares[:, None] ** i * (1 - shares[:, None]) ** (n - i)  # (1001, n + 1)
    inside = shares[np.minimum(chances[:, k:].sum(axis=1), chances[:, : k + 1].sum(axis=1)) >= LEVEL / 2]
    return float(inside[0]), float(inside[-1])
