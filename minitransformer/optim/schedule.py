"""The learning rate: linear warm-up, then decay with the inverse square root  [eq. 3]."""


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000, scale: float = 1.0) -> float:
    """lrate = scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)      [eq. 3]

    step: number of the update, from 1; the rate is largest at step = warmup_steps
    """
    if step < 1:
        raise ValueError(f"learning_rate: step must be at least 1, got {step}")
    return scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
