"""Exercises of the bug zoo: eight layers to fix, and two to tell apart by measurement alone."""

from course.exercises.zoo_layers import NORM_PLACE, PADDING_MASK, SCORES, SHARED_MASKS, SOFTMAX_GRADIENT
from course.exercises.zoo_training import DROPOUT, MEAN_LOSS, SCHEDULE, SHIFTED_TARGET, SMOOTHED_LOSS

EXERCISES = (
    SOFTMAX_GRADIENT,
    SCHEDULE,
    DROPOUT,
    PADDING_MASK,
    NORM_PLACE,
    SHARED_MASKS,
    SCORES,
    MEAN_LOSS,
    SMOOTHED_LOSS,
    SHIFTED_TARGET,
)
