"""When one learning curve overtakes another: scores against minutes, seed by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from examples.paper.seeds import LEVEL, paired, standard_error


class Curve:
    """Scores of one model at increasing minutes, up to the last point that all of its seeds have.

    Attributes:
        seeds: (s,)   minutes: (n,)   scores: (s, n)
    """

    def __init__(self, name: str, minutes: Sequence[float], scores: Mapping[int, Sequence[float]]):
        shortest = min(map(len, scores.values()))
        self.name, self.seeds, self.minutes = name, sorted(scores), np.array(minutes[:shortest], dtype=float)
        self.scores = np.array([scores[seed][:shortest] for seed in self.seeds], dtype=float)

    def covers(self, minutes: float) -> bool:
        return self.minutes[0] <= minutes <= self.minutes[-1]

    def at(self, minutes: float | np.ndarray) -> np.ndarray:
        """The score of each seed, interpolated over the logarithm of minutes, (s,) or (s, m)"""
        return np.array([np.interp(np.log(minutes), np.log(self.minutes), each) for each in self.scores])

    def error(self) -> np.ndarray:
        """The standard error over seeds of each point, (n,); 0 for a single seed."""
        return np.array([np.nan_to_num(standard_error(column)) for column in self.scores.T])


@dataclass(frozen=True)
class Overtaking:
    """Whether ``first`` overtakes ``second``, over the seeds and minutes that both have: a seed fixes the data."""

    first: Curve
    second: Curve

    @cached_property
    def minutes(self) -> np.ndarray:
        """All points of both, (m,); between two of them a difference is linear in the logarithm of minutes."""
        curves = self.first, self.second
        every = np.unique([minutes for curve in curves for minutes in curve.minutes])
        return every[[all(curve.covers(minutes) for curve in curves) for minutes in every]]

    def difference(self, minutes: float | np.ndarray) -> np.ndarray:
        """Score of the first minus that of the second, (seeds,) or (seeds, m)"""
        seeds = [seed for seed in self.first.seeds if seed in self.second.seeds]
        first, second = (
            curve.at(minutes)[[curve.seeds.index(seed) for seed in seeds]] for curve in (self.first, self.second)
        )
        return first - second

    @cached_property
    def of_seeds(self) -> list[float | None]:
        """The `crossing` of each seed."""
        return [crossing(self.minutes, each) for each in self.difference(self.minutes)]

    @cached_property
    def of_mean(self) -> float | None:
        return crossing(self.minutes, self.difference(self.minutes).mean(axis=0))

    @cached_property
    def p(self) -> float:
        """The p-value of the paired t-test at the last minute that both have; NaN for a single seed."""
        return paired(self.difference(self.minutes[-1]))[1]

    def verdict(self, p: float | None = None) -> str:
        """In words.   p: replaces `p` where it is corrected for testing many at once"""
        if not self.difference(self.minutes).size:
            return "open: no seed, or no minutes, that both have"
        start, end = self.minutes[0], self.minutes[-1]
        if self.of_mean is None:
            told = f"does not cross up to {shown(end)} minutes"
        elif self.of_mean == start:
            told = f"ahead from {shown(start)} minutes, the first point, on"
        else:
            told = f"crosses at {shown(self.of_mean)} minutes"
        told += self.range_of_seeds()
        if len(self.of_seeds) == 1:
            return f"open: {told} (one seed)"
        is_significant = (self.p if p is None else p) < LEVEL
        return told if is_significant else f"open: {told}, and not significantly different at {shown(end)}"

    def range_of_seeds(self) -> str:
        """As `` (19 to 31)``; empty where all seeds agree."""
        start, end = self.minutes[0], self.minutes[-1]
        found = sorted(np.inf if each is None else each for each in self.of_seeds)
        names = [
            f"beyond {shown(end)}" if each == np.inf else f"before {shown(start)}" if each == start else shown(each)
            for each in (found[0], found[-1])
        ]
        return "" if names[0] == names[1] else f" ({names[0]} to {names[1]})"


def crossing(minutes: np.ndarray, difference: np.ndarray) -> float | None:
    """When the difference becomes positive for good: the first minute if it always is, None if it is not at the end.

    Between two points it is linear in the logarithm of minutes.
    """
    behind = np.flatnonzero(difference <= 0)
    if not len(behind):
        return float(minutes[0])
    last = behind[-1]
    if last == len(minutes) - 1:
        return None
    share = difference[last] / (difference[last] - difference[last + 1])
    return float(minutes[last] * (minutes[last + 1] / minutes[last]) ** share)


def shown(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.1f}"
