"""The mean of several checkpoints of one run  [sec. 6.1: the last 5 of a base model, the last 20 of a big one]."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from minitransformer.checkpoints.checkpoint import Checkpoint, load_checkpoint
from minitransformer.checkpoints.same_run import changed_settings
from minitransformer.errors import CheckpointError


def average_checkpoints(paths: Sequence[str | Path]) -> Checkpoint:
    """mean = sum of parameters / number of checkpoints, summed in float64, file by file.

    The result has the config, tokenizer and update of the last path and no state of Adam: it translates, but training
    cannot resume from it. ``result.save(path)`` writes it.

    Raises:
        CheckpointError: no paths, an unreadable file, or checkpoints of different runs.
    """
    if not paths:
        raise CheckpointError("average: the checkpoints to average must be at least one, got none")
    total, first = 0.0, None
    for path in paths:
        checkpoint = load_checkpoint(path, with_optimizer=False)
        first = first or checkpoint
        _check_same_run(first, checkpoint)
        total = np.add(total, checkpoint.parameters, dtype=np.float64)
    mean = total / len(paths)
    facts = {"adam_m": None, "adam_v": None, "step_count": 0, "progress": {}, "path": ""}
    return replace(checkpoint, parameters=mean.astype(checkpoint.parameters.dtype), **facts)


def _check_same_run(first: Checkpoint, other: Checkpoint) -> None:
    changed = [key for key, _, _ in changed_settings(first.config, other.config)]
    ours, theirs = (each.progress.get("fingerprint", "") for each in (first, other))  # a mean has none
    compared = {
        "parameters": (first.table, other.table),
        "tokenizer": (first.tokenizer_text, other.tokenizer_text),
        "training data": (ours or theirs, theirs or ours),
    }
    changed += [what for what, (one, two) in compared.items() if one != two]
    if changed:
        raise CheckpointError(
            f"average: {other.path} must have the {changed[0]} of {first.path}, got another; average within one run"
        )
