"""Exercises of lesson 15: why self-attention."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.additive_attention import ADDITIVE_BACKWARD
from course.exercises.recurrence import STEP, STEP_BACKWARD
from course.exercises.through_time import THROUGH_TIME

# -- band -------------------------------------------------------------------------------------------------------------


def distances(n):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n)))


BAND = Exercise(
    "15_why_self_attention.band",
    lambda rng: [(3, 2), (7, 4), (12, 6), (4, 8)],
    reference=lambda n, r: distances(n) <= r // 2,
    tested="3 to 12 positions with 2 to 8 neighbors",
    mistakes=(
        Mistake("r neighbors on each side are seen; r is both sides together.", lambda n, r: distances(n) <= r),
        Mistake("A position must see itself too.", lambda n, r: (distances(n) <= r // 2) & (distances(n) > 0)),
        Mistake(
            "True means: may attend. Here it stands where nothing may be seen.", lambda n, r: distances(n) > r // 2
        ),
        Mistake(
            "One neighbor is missing on each side: at the distance r / 2 it is seen.",
            lambda n, r: distances(n) < r // 2,
        ),
        Mistake(
            "All of the past is seen: the distance is |t - s|, without a sign.",
            lambda n, r: np.tri(n, k=r // 2, dtype=bool),
        ),
        Mistake(
            "All of the future is seen: the distance is |t - s|, without a sign.",
            lambda n, r: np.tri(n, k=r // 2, dtype=bool).T,
        ),
        Mistake(
            "Only the past is seen: half of the neighbors stand on the right.",
            lambda n, r: np.tri(n, dtype=bool) & (distances(n) <= r // 2),
        ),
        Mistake(
            "This is a decoder's mask of the last r positions: half of the neighbors stand on the right.",
            lambda n, r: np.tri(n, dtype=bool) & (distances(n) <= r),
        ),
    ),
)

# -- layers_needed ----------------------------------------------------------------------------------------------------


def least_depth(reach_of, n):
    """The least number of layers with ``reach_of(layers) >= n - 1``."""
    return next(layers for layers in range(n + 1) if reach_of(layers) >= n - 1)


def depth_with(n_apart=lambda n: n, each_side=lambda k: (k - 1) // 2, dilation=lambda k, layer: k**layer):
    """The exercise with another distance, another reach of a layer, or another dilation."""

    def depth(n, k, dilated):
        reach = lambda layers: sum(each_side(k) * (dilation(k, i) if dilated else 1) for i in range(layers))  # noqa: E731
        return least_depth(reach, n_apart(n))

    return depth


LAYERS_NEEDED = Exercise(
    "15_why_self_attention.layers_needed",
    lambda rng: [
        (2, 3, False),
        (14, 3, False),
        (14, 3, True),
        (30, 5, False),
        (20, 3, True),
        (31, 3, True),
        (41, 3, True),
        (200, 5, True),
        (122, 7, True),
    ],
    reference=depth_with(),
    tested="2 to 200 positions, kernels of 3, 5 and 7, with and without dilation",
    mistakes=(
        Mistake(
            "n / k layers: the order of growth, not the number. A layer carries (k - 1) / 2 positions to each side.",
            lambda n, k, dilated: math.ceil(math.log(n, k)) if dilated else math.ceil(n / k),
        ),
        Mistake(
            "With dilation, log_k n is the order of growth, not the number: add up what each layer carries.",
            lambda n, k, dilated: math.ceil(math.log(n, k)) if dilated else depth_with()(n, k, dilated),
        ),
        Mistake(
            "Without dilation the division must be rounded up: the last layer need not be used in full.",
            lambda n, k, dilated: depth_with()(n, k, dilated) if dilated else (n - 1) // ((k - 1) // 2),
        ),
        Mistake("A layer carries (k - 1) / 2 positions, not 1.", depth_with(each_side=lambda k: 1)),
        Mistake(
            "Here a layer carries k - 1 positions; these are both sides together.",
            depth_with(each_side=lambda k: k - 1),
        ),
        Mistake("One position too far: from the first to the last it is n - 1.", depth_with(n_apart=lambda n: n + 1)),
        Mistake(
            "Here a layer carries k / 2 positions; one of the k is its own.", depth_with(each_side=lambda k: k / 2)
        ),
        Mistake(
            "The dilation of the first layer is 1; here it is k.",
            depth_with(dilation=lambda k, layer: k ** (layer + 1)),
        ),
        Mistake(
            "The dilation grows by k from layer to layer, not by 2.", depth_with(dilation=lambda k, layer: 2**layer)
        ),
        Mistake("The dilation is left out.", depth_with(dilation=lambda k, layer: 1)),
        Mistake(
            "Only the last layer's dilation is counted: what earlier layers have carried adds up.",
            lambda n, k, dilated: next(
                i for i in range(1, n) if (k - 1) // 2 * (k ** (i - 1) if dilated else i) >= n - 1
            ),
        ),
    ),
)

EXERCISES = (BAND, LAYERS_NEEDED, STEP, STEP_BACKWARD, THROUGH_TIME, ADDITIVE_BACKWARD)
