"""Scores during a training, in points.jsonl beside its checkpoints, where a resumed training finds them; and the
average of its last checkpoints, which is the same however often it was interrupted."""

import json
import operator
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from examples.paper.program import complete_lines, showing
from examples.paper.sweep import run_to_end
from minitransformer.checkpoints import Checkpoint, RunFolder, average_checkpoints
from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.files import write_text
from minitransformer.models import Model
from minitransformer.training import Corpus, Trainer, read_metrics
from minitransformer.workers import limit_threads

SPARE = 5
"""Checkpoints to keep besides those of `mean_of_last`: a signal saves one wherever it stops the training."""


def learn(
    config: Config,
    corpus: Corpus,
    updates: Collection[int],
    score: Callable[[Model], dict],
    prepare: Callable[[Trainer], None],
) -> list[dict]:
    """Train up to each of ``updates``, in ascending order, and score the model there; returns one point for each.

    score: maps the model to its scores, JSON   prepare: called with each Trainer before it trains

    Raises:
        CheckpointError: the training and its scores have other settings or data.
        DataError: the training is beyond an update that has no score.
    """
    path = Path(config.training.directory) / "points.jsonl"
    Trainer(config, corpus, progress=False).folder.leave()  # checks the settings even where all scores exist
    for until in updates:
        points = read_points(path)
        if until in {point["update"] for point in points}:
            continue
        trainer = Trainer(replace(config, training=replace(config.training, updates=until)), corpus)
        prepare(trainer)
        run_to_end(trainer)
        began = time.monotonic()
        with limit_threads(trainer.config.training.threads):
            found = {**score(trainer.model), "scoring_seconds": time.monotonic() - began}
        point = {"update": until, **found, "seconds": trainer.recorder.seconds()}
        lines = [line for line in read_metrics(trainer.folder.metrics) if line["kind"] == "valid"]
        point["nll"] = lines[-1]["nll"] if lines else None
        print(json.dumps(point), flush=True)
        points = sorted([*points, point], key=lambda each: each["update"])
        write_text(path, "".join(json.dumps(each) + "\n" for each in points))
    return [point for point in read_points(path) if point["update"] in updates]


def mean_of_last(config: Config, count: int) -> Checkpoint:
    """The average of the checkpoints of `updates_of_mean`; CheckpointError if one of them is missing."""
    path_of = RunFolder(config.training.directory).path_of
    return average_checkpoints([path_of(update) for update in updates_of_mean(config, count)])


def updates_of_mean(config: Config, count: int) -> list[int]:
    """The last ``count`` multiples of save_every, the last update being one of them.

    Raises:
        ConfigError: the training saves fewer.
    """
    last, every = config.training.updates, config.training.save_every or config.training.updates
    updates = sorted({*range(every, last, every), last})
    if not 0 < count <= len(updates):
        raise ConfigError(
            f"the mean must be of 1 to {len(updates)} checkpoints, those of update {last} and of every {every}, got "
            f"{count}; change training.save_every or training.keep_checkpoints"
        )
    return updates[-count:]


def read_points(path: Path) -> list[dict]:
    """The points so far.

    Raises:
        DataError: a line is not a point or has NaN, or its update is not above that of the line before.
    """
    with showing(path):
        points = [json.loads(line, parse_constant=int) for line in complete_lines(path)]  # int("NaN") is a ValueError
        for before, point in pairwise([{"update": 0}, *points]):
            if not operator.index(point["update"]) > before["update"]:
                raise ValueError(f"update {point['update']} after {before['update']}")
    return points
