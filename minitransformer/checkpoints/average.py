"""The mean of several checkpoints of one run  [sec. 6.1: the last 5 of a base model, the last 20 of a big one]."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from minitransformer.checkpoints.checkpoint import Checkpoint, load_checkpoint
from minitransformer.checkpoints.header import shapes, slices
from minitransformer.checkpoints.same_run import changed_settings
from minitransformer.errors import CheckpointError


def average_checkpoints(paths: Sequence[str | Path]) -> Checkpoint:
    """mean = sum of parameters / number of checkpoints, summed in float64, one file in memory at a time.

    The result has the config, tokenizer and update of the last path and no state of Adam: it translates, but training
    cannot resume from it. ``result.save(path)`` writes it.

    Raises:
        CheckpointError: no paths, an unreadable file, checkpoints of different runs, or one with NaN or infinity.
    """
    if not paths:
        raise CheckpointError("average: the checkpoints to average must be at least one, got none")
    total, first = {}, None
    for path in paths:
        checkpoint = load_checkpoint(path, with_optimizer=False)
        first = first or checkpoint
        _check_same_run(first, checkpoint)
        if not np.isfinite(checkpoint.parameters).all():
            raise CheckpointError(f"average: {path} must have finite parameters, got NaN or infinity; leave it out")
        for name, where in slices(checkpoint.table).items():
            total[name] = total.get(name, 0.0) + checkpoint.parameters[where].astype(np.float64)
    mean = np.zeros_like(checkpoint.parameters)
    for name, where in slices(checkpoint.table).items():
        mean[where] = total[name] / len(paths)
    return replace(checkpoint, parameters=mean, adam_m=None, adam_v=None, step_count=0, progress={}, path="")


def _check_same_run(first: Checkpoint, other: Checkpoint) -> None:
    changed = [key for key, _, _ in changed_settings(first.config, other.config)]
    ours, theirs = (each.progress.get("fingerprint", "") for each in (first, other))  # a mean has none
    changed += [
        what
        for what, one, two in (
            ("parameters", shapes(first.table), shapes(other.table)),
            ("tokenizer", first.tokenizer_text, other.tokenizer_text),
            ("training data", ours or theirs, theirs or ours),
        )
        if one != two
    ]
    if changed:
        raise CheckpointError(
            f"average: {other.path} must have the {changed[0]} of {first.path}, got another; average within one run"
        )
