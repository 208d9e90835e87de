"""Exercises of lesson 8: embeddings and positions."""

import math

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.rotary import ROTARY, ROTARY_BACKWARD
from minitransformer.nn.positions import sinusoids as engine_sinusoids
from minitransformer.ops.embedding import embedding_backward, embedding_forward

# -- embedding --------------------------------------------------------------------------------------------------------


def embedding_inputs(rng):
    yield np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([2, 0])
    yield rng.standard_normal((7, 4)), rng.integers(0, 7, (2, 5))


EMBEDDING = Exercise(
    "08_positions.embedding",
    embedding_inputs,
    reference=lambda table, ids: embedding_forward(table, ids=ids, scale=math.sqrt(table.shape[1]))[0],
    tested="one sentence and a batch of two, against the engine's embedding_forward",
    mistakes=(
        Mistake("The factor sqrt(d_model) is missing.", lambda table, ids: table[ids]),
        Mistake("The rows are multiplied by d_model, not by its root.", lambda table, ids: table.shape[1] * table[ids]),
        Mistake(
            "The rows are divided by sqrt(d_model); sec. 3.4 multiplies.",
            lambda table, ids: table[ids] / math.sqrt(table.shape[1]),
        ),
        Mistake(
            "The factor is the root of the vocabulary's size; it must be that of the width, d_model.",
            lambda table, ids: math.sqrt(len(table)) * table[ids],
        ),
    ),
)

# -- sinusoids --------------------------------------------------------------------------------------------------------


def waves(n_positions, d_model, *, first=0, exponent=2.0, base=10000.0, width=None):
    """Sines and cosines taking turns, with another first position, exponent (times i / width) or base."""
    powers = exponent * np.arange(d_model // 2) / (width or d_model)
    angles = (first + np.arange(n_positions))[:, None] / base**powers
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n_positions, d_model)


def in_halves(n_positions, d_model):
    table = waves(n_positions, d_model)
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def cosine_first(n_positions, d_model):
    return waves(n_positions, d_model).reshape(n_positions, -1, 2)[:, :, ::-1].reshape(n_positions, d_model)


def every_component_its_own(n_positions, d_model, factor=1.0):
    component = np.arange(d_model)
    angles = np.arange(n_positions)[:, None] / 10000.0 ** (factor * component / d_model)
    return np.where(component % 2 == 0, np.sin(angles), np.cos(angles))


def power_of_the_quotient(n_positions, d_model):
    angles = (np.arange(n_positions)[:, None] / 10000.0) ** (2.0 * np.arange(d_model // 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n_positions, d_model)


SINUSOIDS = Exercise(
    "08_positions.sinusoids",
    lambda rng: [(2, 4), (5, 6), (30, 16)],
    reference=lambda n_positions, d_model: engine_sinusoids(0, n_positions, d_model),
    tested="three sizes, against the engine's sinusoids",
    mistakes=(
        Mistake("Positions are counted from 1; the first is 0.", lambda n, d: waves(n, d, first=1)),
        Mistake(
            "All sines stand first, then all cosines. They take turns: component 2i is a sine, 2i + 1 its cosine.",
            in_halves,
        ),
        Mistake("Sine and cosine are exchanged: even components are sines.", cosine_first),
        Mistake(
            "The exponent is i / d_model; it must be 2i / d_model, i being the number of the pair.",
            lambda n, d: waves(n, d, exponent=1.0),
        ),
        Mistake(
            "The exponent is 4i / d_model: component 2i already holds the factor 2.",
            lambda n, d: waves(n, d, exponent=4.0),
        ),
        Mistake(
            "Positions are multiplied by 10000^(2i / d_model); they must be divided by it.",
            lambda n, d: waves(n, d, exponent=-2.0),
        ),
        Mistake(
            "Sine and cosine of a pair have different speeds: 2i / d_model holds for both components, 2i and 2i + 1.",
            every_component_its_own,
        ),
        Mistake(
            "i is the number of the component here; in 2i / d_model it is that of the pair, and a pair has one speed.",
            lambda n, d: every_component_its_own(n, d, factor=2.0),
        ),
        Mistake(
            "The exponents run up to 1, as in the authors' own code; in section 3.5 the divisor is d_model.",
            lambda n, d: waves(n, d, width=d - 2),
        ),
        Mistake(
            "The power is taken of pos / 10000, as a widely read blog prints it: sin((pos / 10000)^(2i / d_model)). It "
            "belongs to 10000 alone, and divides pos.",
            power_of_the_quotient,
        ),
        Mistake(
            "The table holds whole numbers, which truncate the waves: make it an array of floats, without dtype=int.",
            lambda n, d: waves(n, d).astype(int),
        ),
        Mistake("The base is 1000; the paper's is 10000.", lambda n, d: waves(n, d, base=1000.0)),
    ),
)

# -- embedding_backward -----------------------------------------------------------------------------------------------


def backward_inputs(rng):
    yield rng.standard_normal((3, 2)), np.array([2, 0, 2]), 4
    yield rng.standard_normal((8, 3)), rng.integers(0, 5, 8), 6


def table_gradient(grad_y, ids, n_tokens, scale=None):
    scale = math.sqrt(grad_y.shape[1]) if scale is None else scale
    return embedding_backward(grad_y, ((n_tokens, grad_y.shape[1]), ids, scale))[0]


def last_only(grad_y, ids, n_tokens):
    grad_table = np.zeros((n_tokens, grad_y.shape[1]))
    grad_table[ids] = math.sqrt(grad_y.shape[1]) * grad_y
    return grad_table


def mean_over_uses(grad_y, ids, n_tokens):
    return table_gradient(grad_y, ids, n_tokens) / np.maximum(np.bincount(ids, minlength=n_tokens), 1)[:, None]


EMBEDDING_BACKWARD = Exercise(
    "08_positions.embedding_backward",
    backward_inputs,
    reference=lambda grad_y, ids, n_tokens: table_gradient(grad_y, ids, n_tokens),
    tested="sentences with repeated and with missing tokens, against the engine's embedding_backward",
    mistakes=(
        Mistake(
            "Of a repeated token only the last gradient is kept: `grad_table[ids] += ...` reads, adds and writes once.",
            last_only,
        ),
        Mistake(
            "The factor sqrt(d_model) is missing: forward multiplied by it.",
            lambda grad_y, ids, n_tokens: table_gradient(grad_y, ids, n_tokens, 1.0),
        ),
        Mistake(
            "The gradient is divided by sqrt(d_model); forward multiplied, so backward multiplies too.",
            lambda grad_y, ids, n_tokens: table_gradient(grad_y, ids, n_tokens, 1.0 / math.sqrt(grad_y.shape[1])),
        ),
        Mistake("The gradients of a repeated token are averaged; they add up.", mean_over_uses),
        Mistake(
            "The factor is the root of the vocabulary's size; it must be that of the width, d_model.",
            lambda grad_y, ids, n_tokens: table_gradient(grad_y, ids, n_tokens, math.sqrt(n_tokens)),
        ),
    ),
)

# -- shift ------------------------------------------------------------------------------------------------------------


def shift_matrix(k, d_model, *, exponent=2.0):
    """Turns of each pair (sin, cos), for ``sinusoids @ matrix``."""
    matrix = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = k / 10000.0 ** (exponent * i / d_model)
        matrix[2 * i, 2 * i] = matrix[2 * i + 1, 2 * i + 1] = math.cos(angle)
        matrix[2 * i + 1, 2 * i], matrix[2 * i, 2 * i + 1] = math.sin(angle), -math.sin(angle)
    return matrix


def by_halves(k, d_model):
    order = [*range(0, d_model, 2), *range(1, d_model, 2)]
    return shift_matrix(k, d_model)[np.ix_(order, order)]


def without_minus(k, d_model):
    matrix = shift_matrix(k, d_model)
    pairs = np.arange(0, d_model, 2)
    matrix[pairs, pairs + 1] *= -1.0
    return matrix


SHIFT = Exercise(
    "08_positions.shift",
    lambda rng: [(1, 4), (3, 6), (-2, 8)],
    reference=lambda k, d_model: shift_matrix(k, d_model),
    tested="steps of 1, 3 and -2 at three widths, against the turns in closed form",
    mistakes=(
        Mistake(
            "The matrix moves by -k. It is also the transposed one: the table stands on its left, each row a position.",
            lambda k, d_model: shift_matrix(-k, d_model),
        ),
        Mistake(
            "All pairs turn by the same angle k; pair i has the speed 10000^(-2i / d_model).",
            lambda k, d_model: shift_matrix(k, d_model, exponent=0.0),
        ),
        Mistake(
            "The speeds are 10000^(-i / d_model); the exponent is 2i / d_model, i being the number of the pair.",
            lambda k, d_model: shift_matrix(k, d_model, exponent=1.0),
        ),
        Mistake(
            "The speeds are 10000^(-4i / d_model): an i that counts components holds the factor 2 already.",
            lambda k, d_model: shift_matrix(k, d_model, exponent=4.0),
        ),
        Mistake(
            "The sign of k is lost: with k = -2 the matrix turns back.",
            lambda k, d_model: shift_matrix(abs(k), d_model),
        ),
        Mistake("The matrix is made for sines first, then cosines; in the table they take turns.", by_halves),
        Mistake(
            "Both sines have the same sign: that is no turn. cos(a + b) = cos a cos b - sin a sin b.", without_minus
        ),
    ),
)

EXERCISES = (EMBEDDING, SINUSOIDS, EMBEDDING_BACKWARD, SHIFT, ROTARY, ROTARY_BACKWARD)
