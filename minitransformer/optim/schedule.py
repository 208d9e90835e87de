"""The learning rate: linear warm-up, then inverse-square-root decay  [eq. 3] or none."""

from minitransformer.config import TrainingConfig


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000, scale: float = 1.0) -> float:
    """lrate = scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)      [eq. 3]

    step: number of the update, from 1; the rate is largest at step = warmup_steps   scale: 1 in the paper

    Raises:
        ValueError: step or warmup_steps is less than 1.
    """
    if min(step, warmup_steps) < 1:
        raise ValueError(f"learning_rate: step and warmup_steps must be at least 1, got {step} and {warmup_steps}")
    return scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def scheduled_rate(update: int, d_model: int, config: TrainingConfig) -> float:
    """The learning rate that [training] asks for: eq. 3 unless ``learning_rate`` or ``schedule`` says otherwise."""
    scale, warmup = config.lr_scale, config.warmup_steps
    if config.learning_rate:
        scale *= config.learning_rate / learning_rate(warmup, d_model, warmup)
    step = min(update, warmup) if config.schedule == "constant" else update
    return learning_rate(step, d_model, warmup, scale)
