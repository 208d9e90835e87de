"""Exercises of lesson 8: rotary positions and their backward."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.nn.positions import sinusoids as engine_sinusoids

# -- rotary -----------------------------------------------------------------------------------------------------------


def rotary_inputs(rng):
    return [(rng.standard_normal((2, 4)), 1), (rng.standard_normal((5, 8)), 0), (rng.standard_normal((3, 6)), 7)]


def turned(x, start, *, sign=1.0, exponent=2.0):
    length, d = x.shape
    angles = sign * (start + np.arange(length))[:, None] / 10000.0 ** (exponent * np.arange(d // 2) / d)
    pairs = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(length, d)


def turned_in_halves(x, start):
    half = x.shape[1] // 2
    pairs = turned(np.stack([x[:, :half], x[:, half:]], axis=-1).reshape(x.shape), start)
    return np.concatenate([pairs[:, 0::2], pairs[:, 1::2]], axis=1)


def exchanged(x):
    """The two numbers of each pair, the other way round."""
    return x.reshape(len(x), -1, 2)[:, :, ::-1].reshape(x.shape)


def overwritten(x, start):
    """Each pair's second component made from the first one that was already turned."""
    length, d = x.shape
    angles = (start + np.arange(length))[:, None] / 10000.0 ** (2.0 * np.arange(d // 2) / d)
    a = x[:, 0::2] * np.cos(angles) - x[:, 1::2] * np.sin(angles)
    b = a * np.sin(angles) + x[:, 1::2] * np.cos(angles)
    return np.stack([a, b], axis=-1).reshape(length, d)


def scores_depend_on_distance(function, x, start):
    here, later = function(x, start), function(x, start + 5)
    if not np.allclose(here @ here.T, later @ later.T):
        return "The scores change when all positions move by 5: they must depend on distances alone."
    if not np.allclose((here**2).sum(axis=1), (x**2).sum(axis=1)):
        return "A turn must keep the length of each vector."
    return None


ROTARY = Exercise(
    "08_positions.rotary",
    rotary_inputs,
    reference=lambda x, start: turned(x, start),
    tested="three sizes and three first positions, against turns of complex numbers; scores under a shift of all",
    mistakes=(
        Mistake(
            "The pairs are turned backwards: (a, b) becomes (a cos - b sin, a sin + b cos).",
            lambda x, start: turned(x, start, sign=-1.0),
        ),
        Mistake("start is not used: the first row is at position start.", lambda x, start: turned(x, 0)),
        Mistake(
            "All pairs turn with the same speed; pair i has 10000^(-2i / d).",
            lambda x, start: turned(x, start, exponent=0.0),
        ),
        Mistake(
            "The speeds are 10000^(-i / d); the exponent is 2i / d, i being the number of the pair.",
            lambda x, start: turned(x, start, exponent=1.0),
        ),
        Mistake("Pairs are made across the two halves; in this exercise neighbors make a pair.", turned_in_halves),
        Mistake(
            "The turned pairs are not put back in turns: all first numbers stand in front, then all second ones.",
            lambda x, start: np.hstack([turned(x, start)[:, 0::2], turned(x, start)[:, 1::2]]),
        ),
        Mistake("The new b is made from the new a; both must be made from the old pair.", overwritten),
        Mistake(
            "The sinusoids are added; the scores then depend on the positions themselves, not the distances alone.",
            lambda x, start: x + engine_sinusoids(start, start + len(x), x.shape[1]),
        ),
    ),
    properties=(scores_depend_on_distance,),
)

# -- rotary_backward --------------------------------------------------------------------------------------------------

ROTARY_BACKWARD = Exercise(
    "08_positions.rotary_backward",
    rotary_inputs,
    reference=lambda grad_y, start: turned(grad_y, start, sign=-1.0),
    tested="three sizes and three first positions, against turns of complex numbers by the negative angles",
    mistakes=(
        Mistake(
            "The gradient is turned forwards, like x. Backward turns the other way: the matrix of a turn, transposed, "
            "is the turn by the negative angle.",
            lambda grad_y, start: turned(grad_y, start),
        ),
        Mistake("The gradient is passed on as it came.", lambda grad_y, start: grad_y + 0.0),
        Mistake(
            "start is not used: the first row was turned at position start.",
            lambda grad_y, start: turned(grad_y, 0, sign=-1.0),
        ),
        Mistake(
            "start is negated with the angle: row t must turn by -(start + t), here it turns by t - start.",
            lambda grad_y, start: turned(grad_y, -start),
        ),
        Mistake(
            "The speeds are 10000^(-i / d); the exponent is 2i / d, i being the number of the pair.",
            lambda grad_y, start: turned(grad_y, start, sign=-1.0, exponent=1.0),
        ),
        Mistake(
            "The two numbers of each pair are left exchanged: swap, turn, and swap back.",
            lambda grad_y, start: exchanged(turned(grad_y, start, sign=-1.0)),
        ),
        Mistake(
            "All columns are reversed, so that each pair turns with another one's speed: exchange within the pairs.",
            lambda grad_y, start: turned(grad_y[:, ::-1], start)[:, ::-1],
        ),
    ),
)
