"""What the project measured for the paper's claims, for the notebooks: a checkout has it, an installation has not."""

import json

import numpy as np

from course.exercise import LESSONS


def result_lines(experiment: str, name: str) -> list[dict]:
    """The lines of a name, one for each seed, from examples/paper/results."""
    lines = (LESSONS.parent / "examples/paper/results" / f"{experiment}.jsonl").read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["name"] == name]


def measured(experiment: str, name: str, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over seeds of a number, or of each in a list."""
    found = np.array([line[what] for line in result_lines(experiment, name)])
    return found.mean(axis=0), found.std(axis=0, ddof=1) / len(found) ** 0.5
