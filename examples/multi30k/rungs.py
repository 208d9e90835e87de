"""The rungs of the ladder. Each is the one below it with one setting changed; where several values are tried, the rungs
above build on the value that is best on the validation set."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CHECKPOINTS = "checkpoints"
"""How many of the last ones the mean is of that translates, a setting of the ladder itself. Every training is scored
with each of `MEANS_OF`."""
MEANS_OF = 1, 10
AS_BELOW: dict = {}
"""A value of a rung that may not help: if it is the best, the rung is left out."""


def rungs(updates: int) -> dict[str, list[dict]]:
    """Rung -> the values to be tried, each as ``section.key``: value.

    updates: those of the rung "more updates"; "twice the updates" has twice as many
    """
    return {
        "recipe": [{}],
        "pre-norm": [{"model.norm": "pre"}],
        "mean of 10": [{CHECKPOINTS: 10}],  # below the peak rate, as only the higher rate gains by it
        "peak rate": [{"training.learning_rate": rate} for rate in (0.003, 0.005)],
        "more updates": [{"training.updates": updates}],
        "dropout places": [{"model.p_drop_attention": 0.1, "model.p_drop_ffn": 0.1}, AS_BELOW],
        "BPE dropout": [{"data.bpe_dropout": 0.1}, AS_BELOW],
        "twice the updates": [{"training.updates": 2 * updates}],
    }


class Step(NamedTuple):
    """A value of a rung.

    label: its name   run: the training that it is read from, its own or, if none is needed, that of the rung below
    changes: from the rung below   settings: all changes of the recipe so far   checkpoints: in the mean
    below: the label of the step it builds on, "" for the recipe
    """

    rung: str
    label: str
    run: str
    changes: dict
    settings: dict
    checkpoints: int
    below: str


GROUND = Step("", "", "", {}, {}, 1, "")


def step_onto(rung: str, changes: dict, below: Step, is_only: bool) -> Step:
    if changes == AS_BELOW and below is not GROUND:
        return below
    if CHECKPOINTS in changes:
        return below._replace(rung=rung, label=rung, below=below.label, changes=changes, **changes)
    label = rung if is_only else f"{rung} {' '.join(map(str, changes.values()))}"
    return Step(rung, label, label, changes, below.settings | changes, below.checkpoints, below.label)


def steps_onto(rung: str, values: Sequence[dict], below: Step) -> list[Step]:
    is_only = sum(changes != AS_BELOW for changes in values) <= 1
    return [step_onto(rung, changes, below, is_only) for changes in values]


def run_names(updates: int) -> set[str]:
    """Names of all trainings that the ladder may reach, whether or not their settings are known yet."""
    return {step.run for rung, values in rungs(updates).items() for step in steps_onto(rung, values, GROUND)}


def climb(results: Sequence[dict], seeds: int, updates: int) -> list[Step]:
    """Every step whose settings are known, from the lowest up to the first choice that lacks results of seeds 1 to
    N."""
    steps, top = [], GROUND
    for rung, values in rungs(updates).items():
        found = steps_onto(rung, values, top)
        steps += [step for step in found if step is not top]
        scores = [bleu_of(results, step, seeds) for step in found]
        if len(found) > 1 and min(map(len, scores)) < seeds:
            break
        top = found[int(np.argmax([np.mean(each) for each in scores]))] if len(found) > 1 else found[0]
    return steps


def bleu_of(results: Sequence[dict], step: Step, seeds: int) -> list[float]:
    """BLEU on the validation set, for each of the seeds 1 to ``seeds`` that has a result."""
    return [
        result["val"][str(step.checkpoints)]["bleu"]
        for result in results
        if result["name"] == step.run and result["seed"] <= seeds
    ]
