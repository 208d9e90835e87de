"""What a run has seen so far, and the lines of ``metrics.jsonl`` that it makes of that."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from minitransformer.training.metrics import Meter, MetricsLog
from minitransformer.training.pending import PendingResults
from minitransformer.training.step import StepResult


class MetricsRecorder:
    """Figures of updates, from when they are computed to when they stand in the file.

    path: the metrics file
    writes: whether lines are written; only the first rank's are
    log_every: updates between two lines of kind ``train``
    epoch_of: the epoch of an update, counted from 1

    Attributes:
        interval, epoch_so_far: the figures since the last line, and since the epoch began.
    """

    def __init__(self, path: Path, writes: bool, log_every: int, epoch_of: Callable[[int], int]):
        self._log, self._writes, self._log_every, self._epoch_of = MetricsLog(path), writes, log_every, epoch_of
        self._unread = PendingResults()
        self.interval, self.epoch_so_far = Meter(), Meter()
        self._before = 0.0  # seconds of earlier sittings
        self.begin_sitting()

    def begin_sitting(self) -> None:
        self._began = time.monotonic()

    def begin_update(self) -> None:
        self._unread.start()

    def add(self, update: int, result: StepResult) -> bool:
        """Take in the figures of an update; whether they and all before them have been read."""
        self._unread.add(result)
        ready = self._unread.is_full or self._ends_epoch(update) or update % self._log_every == 0
        if ready:
            self.read(update)
        return ready

    def write_if_due(self, update: int, learning_rate: float) -> None:
        if update % self._log_every == 0:
            speed = {"learning_rate": learning_rate, **self.interval.speed()}
            self.write("train", update, self.interval.losses() | speed)
            self.interval.clear()
        if self._ends_epoch(update):
            self.write("epoch", update, self.epoch_so_far.losses() | {"tokens": self.epoch_so_far.tokens})
            self.epoch_so_far.clear()

    def read(self, update: int) -> None:
        """Take in the figures of the updates up to ``update``; on a GPU this waits until they are computed."""
        results, seconds = self._unread.read(update)
        for result in results:
            for meter in (self.interval, self.epoch_so_far):
                meter.add(result, seconds)

    def write(self, kind: str, update: int, values: dict) -> None:
        if self._writes:
            where = {"update": update, "epoch": self._epoch_of(max(update, 1))}
            self._log.write(kind, **where, **values, seconds=round(self.seconds(), 3))

    def sync(self) -> None:
        self._log.sync()

    def seconds(self) -> float:
        """Since the run began, over all its sittings."""
        return self._before + time.monotonic() - self._began

    def to_dict(self) -> dict:
        """What a checkpoint carries."""
        return {
            "interval": self.interval.to_dict(),
            "epoch_so_far": self.epoch_so_far.to_dict(),
            "seconds": self.seconds(),
        }

    def restore(self, progress: dict) -> None:
        """Go on from what ``to_dict`` gave."""
        self.interval, self.epoch_so_far = Meter(**progress["interval"]), Meter(**progress["epoch_so_far"])
        self._before = progress["seconds"]

    def cut_after(self, update: int) -> list[dict]:
        """As ``MetricsLog.cut_after``, on the rank that writes."""
        return self._log.cut_after(update) if self._writes else []

    def _ends_epoch(self, update: int) -> bool:
        return self._epoch_of(update + 1) != self._epoch_of(update)
