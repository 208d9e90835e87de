"""Scores on the way of a training, in points.jsonl beside its checkpoints, where a resumed training finds them."""

import json
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from examples.paper.program import complete_lines, showing
from examples.paper.sweep import stop_if_interrupted
from minitransformer.config import Config
from minitransformer.errors import DataError
from minitransformer.files import write_text
from minitransformer.models import Model
from minitransformer.training import Corpus, Trainer, read_metrics
from minitransformer.workers import limit_threads


def learn(
    config: Config,
    corpus: Corpus,
    updates: Collection[int],
    score: Callable[[Model], dict],
    prepare: Callable[[Trainer], None] = lambda trainer: None,
) -> list[dict]:
    """Train up to each of ``updates``, ascending, and score the model there; one point of each.

    score: of the model, JSON   prepare: is called with each Trainer before it trains

    Raises:
        DataError: the training is beyond an update of which it has no score.
    """
    path = Path(config.training.directory) / "points.jsonl"
    for until in updates:
        points = read_points(path)
        if until in {point["update"] for point in points}:
            continue
        trainer = Trainer(replace(config, training=replace(config.training, updates=until)), corpus)
        check_not_beyond(trainer, until)
        prepare(trainer)
        stop_if_interrupted(trainer.run())  # also where only the last validation is missing
        point = {"update": until, **timed(score, trainer), "seconds": trainer.recorder.seconds()}
        lines = [line for line in read_metrics(trainer.folder.metrics) if line["kind"] == "valid"]
        point["nll"] = lines[-1]["nll"] if lines else None
        print(json.dumps(point), flush=True)
        write_text(path, "".join(json.dumps(each) + "\n" for each in [*points, point]))
    return [point for point in read_points(path) if point["update"] in updates]


def check_not_beyond(trainer: Trainer, update: int) -> None:
    """DataError: the training has been past this update, where it must be scored."""
    if trainer.update > update:
        raise DataError(
            f"{trainer.config.training.directory}: must not be beyond update {update}, of which there is no score yet, "
            f"got {trainer.update}; score it where it was scored before, or begin in another folder"
        )


def timed(score: Callable[[Model], dict], trainer: Trainer) -> dict:
    """The scores, and the seconds that scoring took."""
    began = time.monotonic()
    with limit_threads(trainer.config.training.threads):
        found = score(trainer.model)
    return {**found, "scoring_seconds": time.monotonic() - began}


def read_points(path: Path) -> list[dict]:
    """The points so far; DataError if a line is none."""
    with showing(path):
        return [point | {"update": int(point["update"])} for point in map(json.loads, complete_lines(path))]
