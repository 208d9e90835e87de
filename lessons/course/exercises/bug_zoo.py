"""Exercises of the bug zoo: six layers to fix, and three to tell apart by measurement alone."""

from course.exercises.dropout import STILL_DROPS
from course.exercises.zoo_layers import NORM_PLACE, PADDING_MASK, SCORES, SHARED_MASKS, SOFTMAX_GRADIENT
from course.exercises.zoo_training import MEAN_LOSS, SCHEDULE, SHIFTED_TARGET

EXERCISES = (
    SOFTMAX_GRADIENT,
    SCHEDULE,
    STILL_DROPS,
    PADDING_MASK,
    NORM_PLACE,
    SHARED_MASKS,
    SCORES,
    MEAN_LOSS,
    SHIFTED_TARGET,
)
