"""What the project measured for the paper's claims, for the notebooks: a checkout has it, an installation has not."""

import json

import numpy as np

from course.exercise import LESSONS


def measured(experiment: str, name: str, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over seeds of a number, or of each in a list, from examples/paper/results."""
    lines = (LESSONS.parent / "examples/paper/results" / f"{experiment}.jsonl").read_text(encoding="utf-8").splitlines()
    found = np.array([line[what] for line in map(json.loads, lines) if line["name"] == name])
    return found.mean(axis=0), found.std(axis=0, ddof=1) / len(found) ** 0.5
