"""Figures of updates that are still on the device: they are read together, so that nobody waits within an update."""

from __future__ import annotations

import math
import time

from minitransformer.errors import TrainingError
from minitransformer.training.step import StepResult

MOST = 16
"""Updates on a GPU whose losses nobody has looked at; one that is no number stops the run that much later."""


class PendingResults:
    """The results of the latest updates: ``start`` before an update, ``add`` after it, ``read`` now and then."""

    def __init__(self):
        self.results: list[StepResult] = []
        self.began = 0.0

    def start(self) -> None:
        if not self.results:
            self.began = time.monotonic()

    def add(self, result: StepResult) -> None:
        self.results.append(result)

    @property
    def is_full(self) -> bool:
        """Whether it is time to read: at once where the figures are Python's own numbers."""
        return isinstance(self.results[-1].loss, float) or len(self.results) >= MOST

    def read(self, update: int) -> tuple[list[StepResult], float]:
        """The results with Python's numbers, and the seconds that each took; afterwards there are none.

        update: the number of the latest update, for the message

        Raises:
            TrainingError: a loss or a gradient norm is no number.
        """
        results = [result.read() for result in self.results]
        seconds = (time.monotonic() - self.began) / max(1, len(results))
        self.results = []
        for number, result in enumerate(results, start=update - len(results) + 1):
            if not (math.isfinite(result.loss) and math.isfinite(result.gradient_norm)):
                raise TrainingError(
                    f"train: loss and gradient norm must be finite, got {result.loss} and {result.gradient_norm} at "
                    f"update {number}; the checkpoints before it are whole; lower training.lr_scale or set "
                    "training.clip_norm"
                )
        return results, seconds
