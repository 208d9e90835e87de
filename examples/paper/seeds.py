"""Statistics of what several seeds have measured: means with standard errors, comparisons, ranks."""

import math
from collections.abc import Sequence

import numpy as np


def values_of(results: Sequence[dict], key: str, **chosen: object) -> np.ndarray:
    """``key`` of the results whose other keys have the chosen values, one row a seed."""
    rows = [result for result in results if all(result.get(name) == value for name, value in chosen.items())]
    return np.array([result[key] for result in sorted(rows, key=lambda result: result["seed"])])


def standard_error(values: np.ndarray) -> float:
    """Of the mean; NaN for a single value."""
    return values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def with_error(values: np.ndarray, digits: int) -> str:
    """Mean and standard error, as ``4.92 ± 0.03``; of a single value, no error."""
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {standard_error(values):.{digits}f}"


def compare(a: np.ndarray, b: np.ndarray) -> int:
    """1 if the mean of a is above that of b by more than twice the standard error of the difference, -1 if below, or 0:
    also for a single seed, which has no standard error."""
    difference, error = a.mean() - b.mean(), np.hypot(standard_error(a), standard_error(b))
    return int(np.sign(difference)) if abs(difference) > 2 * error else 0


def relation(a: np.ndarray, b: np.ndarray) -> str:
    """`compare` in words."""
    return {1: "higher than", -1: "lower than", 0: "not distinguishable from"}[compare(a, b)]


def ranks(values: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal values share the mean of their ranks."""
    below = (values[None, :] < values[:, None]).sum(1)
    equal = (values[None, :] == values[:, None]).sum(1)
    return below + (equal + 1) / 2


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rho: the correlation of the ranks; NaN where all values of a side are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
