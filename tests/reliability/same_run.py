"""Whether an interrupted run equals an uninterrupted one: checkpoints, metrics and order of the batches."""

from pathlib import Path

import numpy as np

from minitransformer.checkpoints import RunFolder, load_checkpoint
from minitransformer.errors import MiniTransformerError
from minitransformer.training import read_metrics
from tests.reliability.jobs import Job, require

CLOCK = {"seconds", "tokens_per_second"}
"""Metrics that depend on the speed of the machine."""
STATE = ("update", "step_count", "table", "tokenizer_text", "parameters", "adam_m", "adam_v", "progress")
"""From which training resumes."""


def equal(ours: object, theirs: object, tolerance: float = 0.0) -> bool:
    """Whether two values are the same, bit for bit; with a tolerance, floats and vectors up to that relative error."""
    if isinstance(theirs, dict):
        keys = ours.keys() | theirs.keys()
        return all(key in ours and key in theirs and equal(ours[key], theirs[key], tolerance) for key in keys - CLOCK)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs, [tolerance] * len(theirs)))
    if isinstance(theirs, np.ndarray):
        if tolerance == 0.0 or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
        return bool(np.linalg.norm(ours - theirs) <= tolerance * np.linalg.norm(theirs))
    if isinstance(theirs, float):
        return abs(ours - theirs) <= tolerance * abs(theirs)
    return ours == theirs


def batches_of(job: Job) -> dict[tuple[int, int], str]:
    """(update, number of the micro-batch): checksum of its examples."""
    batches = {}
    for _, _, event, *values in job.events():
        if event == "batch":
            key = int(values[0]), int(values[1])
            require(batches.setdefault(key, values[2]) == values[2], f"micro-batch {key} must have one content")
    return batches


class UninterruptedRun:
    """The reference: an uninterrupted run with a checkpoint of every update."""

    def __init__(self, folder: Path, job: Job, tolerance: float):
        self._run, self._tolerance = RunFolder(folder), tolerance
        self.metrics = read_metrics(self._run.metrics)
        self.batches = batches_of(job)
        self.updates = max(update for update, _ in self.batches)

    def check_folder(self, folder: Path, job: Job, least_update: int) -> int:
        """Require that checkpoints and metrics equal those of the uninterrupted run, and that none is lost.

        least_update: the newest checkpoint must not be older
        Returns the update of the newest checkpoint, -1 if there is none.
        """
        updates = [self._check_checkpoint(path) for path in RunFolder(folder).paths()]
        newest = max(updates, default=-1)
        saved = [int(values[0]) for _, _, event, *values in job.events() if event == "saved"]
        wanted = max([least_update, *saved])
        require(newest >= wanted, f"the checkpoint of update {wanted} must not be lost, got {newest} as the newest")
        self._check_metrics(folder, newest)
        for key, checksum in batches_of(job).items():
            require(self.batches.get(key) == checksum, f"micro-batch {key} must be that of the uninterrupted run")
        return newest

    def _check_checkpoint(self, path: Path) -> int:
        try:
            ours = load_checkpoint(path)
        except MiniTransformerError as error:
            require(False, f"every checkpoint must be loadable: {error}")
        theirs = load_checkpoint(self._run.path_of(ours.update))
        for name in STATE:
            is_equal = equal(getattr(ours, name), getattr(theirs, name), self._tolerance)
            require(is_equal, f"{name} in {path.name} must be the same")
        return ours.update

    def _check_metrics(self, folder: Path, newest: int) -> None:
        """The lines are the first of the uninterrupted run, and at least those up to the newest checkpoint."""
        path = RunFolder(folder).metrics
        lines = read_metrics(path) if path.exists() else []
        needed = sum(
            line["update"] < newest or (line["update"] == newest and line["kind"] != "valid") for line in self.metrics
        )
        require(needed <= len(lines), f"{needed} lines of metrics must be there, got {len(lines)}")
        for ours, theirs in zip(lines, self.metrics, strict=False):
            require(equal(ours, theirs, self._tolerance), f"metrics must be {theirs}, got {ours}")
        require(len(lines) <= len(self.metrics), f"{len(lines)} lines of metrics, more than the uninterrupted run's")

    def check_end(self, folder: Path, batches: dict[tuple[int, int], str]) -> None:
        """At the end nothing is missing (last update, metrics, micro-batches), and no unfinished file is left."""
        require(
            RunFolder(folder).paths()[-1].name == self._run.path_of(self.updates).name, "the last update is missing"
        )
        require(len(read_metrics(RunFolder(folder).metrics)) == len(self.metrics), "lines of metrics are missing")
        require(batches == self.batches, "the micro-batches of all attempts must be those of the uninterrupted run")
        require(not list(folder.rglob("*.partial")), "no unfinished file must be left")
