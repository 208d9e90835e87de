"""From the results of updates to the lines of ``metrics.jsonl``."""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from minitransformer.errors import TrainingError
from minitransformer.files import write_error, write_text
from minitransformer.training.metrics import Meter, StepResult, is_on_host, read_metrics
from minitransformer.training.nonfinite import nonfinite_message

MAX_PENDING = 16
"""Updates on a GPU whose figures are not read yet; a loss that is NaN stops the run at most that much later."""


class MetricsRecorder:
    """Collects the result of each update and writes lines of metrics.

    Figures on a GPU are read several at a time, so that no update waits for them.

    path: the metrics file
    writes: whether lines are written; only rank 0's are
    log_every: updates between two lines of kind ``train``
    epoch_of: the epoch of an update, counted from 1
    check: called before a line is written; raises if the folder of ``path`` is not this run's any more

    Attributes:
        interval, epoch_so_far: sums since the last line, and since the epoch began.
    """

    def __init__(
        self,
        path: Path,
        writes: bool,
        log_every: int,
        epoch_of: Callable[[int], int],
        check: Callable[[], object] = lambda: None,
    ):
        self._path, self._writes, self._log_every, self._epoch_of = path, writes, log_every, epoch_of
        self._check = check
        self._pending: list[StepResult] = []
        self._pending_since = 0.0
        self.interval, self.epoch_so_far = Meter(), Meter()
        self._earlier_seconds = 0.0  # of this run, before it was resumed
        self.start_clock()

    def start_clock(self) -> None:
        self._started = time.monotonic()

    def begin_update(self) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()

    def add(self, update: int, result: StepResult) -> bool:
        """Add the result of ``update``; returns whether it and all earlier ones have been read: alike on all ranks."""
        self._pending.append(result)
        is_due = self._ends_epoch(update) or update % self._log_every == 0
        reads = is_on_host(result.loss) or is_due or update % MAX_PENDING == 0
        if reads:
            self.read(update)
        return reads

    def read(self, update: int) -> None:
        """Read all pending results, the last of which is that of ``update``; a GPU must have computed them. A loss that
        is not finite, of an update that was skipped, is left out.

        Raises:
            TrainingError: a GPU has made an update whose loss or gradient norm is NaN or infinite; it names the update.
        """
        results, self._pending = [result.read() for result in self._pending], []
        seconds = (time.monotonic() - self._pending_since) / max(1, len(results))
        for number, result in enumerate(results, start=update - len(results) + 1):
            if result.is_finite and not math.isfinite(result.loss + result.gradient_norm):
                raise TrainingError(nonfinite_message(number, result))
            for meter in (self.interval, self.epoch_so_far) if math.isfinite(result.loss) else ():
                meter.add(result, seconds)

    def write_if_due(self, update: int, learning_rate: float) -> None:
        if update % self._log_every == 0 and self.interval.updates:
            speed = {"learning_rate": learning_rate, **self.interval.speed()}
            self.write("train", update, self.interval.losses() | speed)
            self.interval = Meter()
        if self._ends_epoch(update) and self.epoch_so_far.updates:
            self.write("epoch", update, self.epoch_so_far.losses() | {"tokens": self.epoch_so_far.tokens})
            self.epoch_so_far = Meter()

    def write(self, kind: str, update: int, values: dict) -> None:
        """Append one line; it reaches the file before this returns.

        Raises:
            TrainingError: the file cannot be written, for example because the disk is full; or what ``check`` raises.
        """
        if not self._writes:
            return
        self._check()
        line = {"kind": kind, "update": update, "epoch": self._epoch_of(max(update, 1)), **values}
        line["seconds"] = round(self.seconds(), 3)
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise TrainingError(f"metrics: {self._path} {write_error(error)}") from error

    def sync(self) -> None:
        """Wait until the lines are on the disk: a checkpoint must not outlive the lines before it."""
        if self._path.exists():
            with open(self._path, "ab") as file:  # Windows syncs no file that is open for reading only
                os.fsync(file.fileno())

    def seconds(self) -> float:
        """Since the run began, without the time in which it was stopped."""
        return self._earlier_seconds + time.monotonic() - self._started

    def to_dict(self) -> dict:
        """The part of a checkpoint's progress that ``restore`` reads."""
        meters = {"interval": asdict(self.interval), "epoch_so_far": asdict(self.epoch_so_far)}
        return meters | {"seconds": self.seconds()}

    def restore(self, progress: dict) -> None:
        """Resume from what ``to_dict`` gave."""
        self.interval, self.epoch_so_far = Meter(**progress["interval"]), Meter(**progress["epoch_so_far"])
        self._earlier_seconds = progress["seconds"]

    def cut_after(self, update: int) -> list[dict]:
        """Drop the lines beyond ``update`` and a last line cut short; the lines that stay are returned.

        A run that resumes from a checkpoint writes them again, so without this the file would contain them twice.
        """
        if not self._writes or not self._path.exists():
            return []
        kept = [line for line in read_metrics(self._path) if line["update"] <= update]
        write_text(self._path, "".join(json.dumps(line) + "\n" for line in kept))
        return kept

    def _ends_epoch(self, update: int) -> bool:
        return self._epoch_of(update + 1) != self._epoch_of(update)
