"""Exercises of lesson 7: the feed-forward layer."""

import numpy as np

from course.calls import Trouble
from course.compare import form_error, in_form_of
from course.exercise import Exercise, Mistake
from course.exercises.feed_forward import BACKWARD, FORWARD, random_layer
from course.exercises.gated_feed_forward import GATED, GATED_BACKWARD
from minitransformer.ops.feed_forward import feed_forward_forward

# -- collapsed --------------------------------------------------------------------------------------------------------

COLLAPSED = Exercise(
    "07_feed_forward.collapsed",
    lambda rng: [random_layer(rng, 2, 3), random_layer(rng, 4, 4), random_layer(rng, 3, 8)],
    reference=lambda w1, b1, w2, b2: (w1 @ w2, b1 @ w2 + b2),
    tested="three sizes, against the products on paper",
    parts=("w", "b"),
    mistakes=(
        Mistake("b1 is lost: it passes through w2 like everything else.", lambda w1, b1, w2, b2: (w1 @ w2, b2)),
        Mistake("b2 is missing.", lambda w1, b1, w2, b2: (w1 @ w2, b1 @ w2)),
        Mistake(
            "The bias goes through both projections: only x is multiplied by w1.",
            lambda w1, b1, w2, b2: (w1 @ w2, b2 @ w1 @ w2 + b1 @ w2),
        ),
        Mistake(
            "b2 is multiplied by the product of both matrices; it is added last, as it is.",
            lambda w1, b1, w2, b2: (w1 @ w2, b1 @ w2 + b2 @ w1 @ w2 + b2),
        ),
    ),
)

# -- interpolation ----------------------------------------------------------------------------------------------------


def interpolation_inputs(rng):
    yield np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, -2.0])
    yield np.sort(rng.uniform(-3.0, 3.0, 6)), rng.standard_normal(6)


def near(a, b):
    """Equal but for rounding, in float32 too."""
    return np.allclose(a, b, atol=1e-6)


def layer_of(function, xs, ys):
    """What the student's parameters compute, as a function of a vector of x."""
    n = len(xs)
    wanted = (np.zeros((1, n)), np.zeros(n), np.zeros((n, 1)), np.zeros(1))
    given = in_form_of(wanted, function(xs, ys))
    error = form_error(wanted, given)
    if error:
        raise Trouble(f"{error}.")
    return lambda x: feed_forward_forward(np.asarray(x)[:, None], *given)[0][:, 0]


def at_points(function, xs, ys):
    """The curve at the given points: the first, then the second, then all others."""
    found = layer_of(function, xs, ys)(xs)
    if np.isnan(found).any():
        return "The layer gives NaN: is one of the parameters NaN or infinite?"
    if near(found - found[0], ys - ys[0]):
        if not near(found, ys):
            return "The curve has the right form and starts at the wrong height: b2 must be ys[0]."
        return None
    if not np.isclose(found[0], ys[0]):
        return f"At the first point the curve must be {ys[0]:.4g}, got {found[0]:.4g}: nothing may bend before xs[0]."
    if not np.isclose(found[1], ys[1]):
        return f"Between the first two points the slope is wrong: at xs[1] expected {ys[1]:.4g}, got {found[1]:.4g}."
    slopes = np.diff(ys) / np.diff(xs)
    if near(np.diff(found) / np.diff(xs), np.cumsum(slopes)):
        return "The slopes pile up: every earlier hidden unit is still active. Each must bring the change of slope."
    i = int(np.flatnonzero(~np.isclose(found, ys))[0])
    return f"At xs[{i}] the curve must be {ys[i]:.4g}, got {found[i]:.4g}: which units are active there?"


def between_and_outside(function, xs, ys):
    curve = layer_of(function, xs, ys)
    if not near(curve((xs[1:] + xs[:-1]) / 2), (ys[1:] + ys[:-1]) / 2):
        return "Between the points the curve is not straight: the bends must be at the points."
    if not near(curve(xs[:1] - 2.0), ys[0]):
        return "Left of the first point the curve must be constant: nothing may be active there."
    if not near(curve(xs[-1:] + 2.0), ys[-1]):
        return "Right of the last point the curve must be constant: the last unit must cancel the last slope."
    return None


INTERPOLATION = Exercise(
    "07_feed_forward.interpolation",
    interpolation_inputs,
    reference=None,
    tested="three points and six, at the points, half way between them, and outside",
    properties=(at_points, between_and_outside),
)

EXERCISES = (FORWARD, COLLAPSED, INTERPOLATION, BACKWARD, GATED, GATED_BACKWARD)
