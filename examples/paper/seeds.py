"""Statistics of what several seeds have measured: means with standard errors, comparisons, ranks."""

import math
from collections.abc import Sequence

import numpy as np

T_QUANTILES = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Those of Student's t for 0.975, by degrees of freedom from 1; for more the last is taken, which is cautious."""
TEST = "what is said to differ does so by Welch's t-test at the level of 5 %"


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
    quantile = T_QUANTILES[min(int(freedom + 1e-9), len(T_QUANTILES)) - 1]
    return int(np.sign(difference)) if abs(difference) > quantile * error else 0


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
