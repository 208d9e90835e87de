"""The learning rate: a linear rise, then a slow fall  [eq. 3]."""

from __future__ import annotations


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000, scale: float = 1.0) -> float:
    """lrate = scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)      [eq. 3]

    step: update, counted from 1; the largest rate is at step = warmup_steps
    """
    if step < 1:
        raise ValueError(f"learning_rate: step must be at least 1, got {step}")
    return scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
