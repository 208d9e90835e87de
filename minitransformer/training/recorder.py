"""From the results of updates to the lines of ``metrics.jsonl``."""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict

from minitransformer.checkpoints import RunFolder
from minitransformer.errors import TrainingError
from minitransformer.files import write_error, write_text
from minitransformer.training.metrics import Meter, StepResult, read_metrics


class MetricsRecorder:
    """Collects the result of each update and writes lines of metrics.

    writes: whether lines are written; only rank 0's are
    log_every: updates between two lines of kind ``train``
    epoch_of: the epoch of an update, counted from 1

    Attributes:
        interval: sums since the last line of kind ``train``.
    """

    def __init__(self, folder: RunFolder, writes: bool, log_every: int, epoch_of: Callable[[int], int]):
        self._folder, self._path, self._writes = folder, folder.metrics, writes
        self._log_every, self._epoch_of = log_every, epoch_of
        self.interval = Meter()
        self._earlier_seconds = 0.0  # of this run, until the clock was stopped
        self._started: float | None = None

    def start_clock(self) -> None:
        self._started = time.monotonic()

    def stop_clock(self) -> None:
        self._earlier_seconds, self._started = self.seconds(), None

    def begin_update(self) -> None:
        self._began = time.monotonic()

    def add(self, result: StepResult) -> None:
        """Add the result of the update that was begun. A skipped update may have a loss that is not finite; it is then
        left out."""
        if math.isfinite(result.loss):
            self.interval.add(result, time.monotonic() - self._began)

    def write_if_due(self, update: int, learning_rate: float) -> None:
        if update % self._log_every == 0 and self.interval.updates:
            self.write("train", update, self.interval.means() | {"learning_rate": learning_rate})
            self.interval = Meter()

    def write(self, kind: str, update: int, values: dict) -> None:
        """Append one line; it reaches the file before this returns.

        Raises:
            TrainingError: the file cannot be written, for example because the disk is full; or `RunFolder.check` fails.
        """
        if not self._writes:
            return
        self._folder.check()
        line = {"kind": kind, "update": update, "epoch": self._epoch_of(max(update, 1)), **values}
        line["seconds"] = round(self.seconds(), 3)
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, default=float) + "\n")  # a NumPy number, which a program may add
        except OSError as error:
            raise TrainingError(f"metrics: {self._path} {write_error(error)}") from error

    def sync(self) -> None:
        """Wait until the lines are on the disk: a checkpoint must not outlive the lines before it."""
        if self._path.exists():
            with open(self._path, "ab") as file:  # Windows does not sync a file open only for reading
                os.fsync(file.fileno())

    def seconds(self) -> float:
        """Since the run began, without the time in which it was stopped."""
        return self._earlier_seconds + (0.0 if self._started is None else time.monotonic() - self._started)

    def to_dict(self) -> dict:
        """The part of a checkpoint's progress that ``restore`` reads."""
        return {"interval": asdict(self.interval), "seconds": self.seconds()}

    def restore(self, progress: dict) -> None:
        """Resume from what ``to_dict`` gave."""
        self.interval, self._earlier_seconds = Meter(**progress["interval"]), progress["seconds"]

    def cut_after(self, update: int) -> list[dict]:
        """Drop the lines beyond ``update`` and a last line cut short; the lines that stay are returned.

        A run that resumes from a checkpoint writes them again, so without this the file would contain them twice.
        """
        if not self._writes or not self._path.exists():
            return []
        kept = [line for line in read_metrics(self._path) if line["update"] <= update]
        write_text(self._path, "".join(json.dumps(line) + "\n" for line in kept))
        return kept
