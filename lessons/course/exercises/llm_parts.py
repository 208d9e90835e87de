"""Exercises of ``my_llm``, steps 1 and 2: operations that are new since 2017, and the attention made of them."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.glue_operations import deaf, through_vars, with_gradients
from course.exercises.glue_parts import last_row_alone
from course.exercises.glue_vars import data_and_gradients
from solutions import my_llm as right
from solutions.lesson_08 import sinusoids
from solutions.my_transformer import Var

# -- rms --------------------------------------------------------------------------------------------------------------

RMS = Exercise(
    "my_llm.rms",
    lambda rng: (
        (rng.standard_normal((n, d)), rng.uniform(0.5, 2.0, d), rng.standard_normal((n, d)))
        for n, d in ((2, 4), (3, 6))
    ),
    reference=right.rms,
    tested="data and gradients of x and gamma, two shapes",
    parts=data_and_gradients("x", "gamma"),
    mistakes=(
        deaf(right.rms),
        Mistake(
            "The backward rule was given the norm's output; yours from lesson 6 takes its input x.",
            lambda x, gamma: Var(
                right.rms(x, gamma).data,
                (x, gamma),
                lambda grad: right.rms_norm_backward(grad, right.rms(x, gamma).data, gamma.data, 1e-6),
            ),
        ),
    ),
    through=through_vars("x", "gamma"),
)

# -- gate -------------------------------------------------------------------------------------------------------------


def gate_inputs(rng):
    for n, d_model, d_ff in ((2, 3, 4), (4, 2, 5)):
        shapes = (n, d_model), (d_model, d_ff), (d_model, d_ff), (d_ff, d_model), (n, d_model)
        yield tuple(rng.standard_normal(shape) for shape in shapes)


GATE = Exercise(
    "my_llm.gate",
    gate_inputs,
    reference=right.gate,
    tested="data and all four gradients, two shapes",
    parts=data_and_gradients("x", "w1", "w3", "w2"),
    mistakes=(
        deaf(right.gate),
        Mistake(
            "w1 and w3 are exchanged: w1 leads to the gate, which the ReLU closes.",
            lambda x, w1, w3, w2: right.gate(x, w3, w1, w2),
        ),
        Mistake(
            "The gradients of w1 and w3 are exchanged: their order is that of the parents.",
            with_gradients(right.gate, lambda grads: (grads[0], grads[2], grads[1], grads[3])),
        ),
    ),
    through=through_vars("x", "w1", "w3", "w2"),
)

# -- turn -------------------------------------------------------------------------------------------------------------


def turn_inputs(rng):
    for n, n_heads, d_k, start in ((2, 1, 2, 0), (3, 2, 4, 0), (3, 2, 2, 5)):
        yield rng.standard_normal((n, n_heads * d_k)), n_heads, start, rng.standard_normal((n, n_heads * d_k))


def turn_backwards_forwards(x, n_heads, start):
    y = right.turn(x, n_heads, start)
    return Var(y.data, (x,), lambda grad: (right.turn(Var(grad), n_heads, start).data,))


TURN = Exercise(
    "my_llm.turn",
    turn_inputs,
    reference=right.turn,
    tested="one and two heads, beginning at positions 0 and 5: data and gradient",
    parts=data_and_gradients("x"),
    mistakes=(
        Mistake(
            "The whole row is turned as one head: split it first, each head has the same angles.",
            lambda x, n_heads, start: right.turn(x, 1, start),
        ),
        Mistake(
            "`start` is not used: the first row stands at the position start.",
            lambda x, n_heads, start: right.turn(x, n_heads, 0),
        ),
        Mistake("The gradient is turned forwards; backward turns it back.", turn_backwards_forwards),
        Mistake(
            "The gradient is not turned back.",
            lambda x, n_heads, start: Var(right.turn(x, n_heads, start).data, (x,), lambda grad: (grad,)),
        ),
    ),
    through=through_vars("x", others=["n_heads", "start"]),
)

# -- share ------------------------------------------------------------------------------------------------------------


def share_inputs(rng):
    for n, n_shared, n_heads, d_k in ((2, 1, 2, 2), (3, 2, 4, 2), (2, 2, 6, 3)):
        yield rng.standard_normal((n, n_shared * d_k)), n_shared, n_heads, rng.standard_normal((n, n_heads * d_k))


def tiled(x, n_shared, n_heads):
    """Heads 0, 1, 0, 1 in place of 0, 0, 1, 1."""
    y, copies = np.tile(x.data, n_heads // n_shared), n_heads // n_shared
    return Var(y, (x,), lambda grad: (grad.reshape(len(grad), copies, -1).sum(axis=1),))


def numbers_repeated(x, n_shared, n_heads):
    copies = n_heads // n_shared
    y = np.repeat(x.data, copies, axis=1)
    return Var(y, (x,), lambda grad: (grad.reshape(*x.data.shape, copies).sum(axis=2),))


def mean_backward(x, n_shared, n_heads):
    y = right.share(x, n_shared, n_heads)
    return Var(y.data, (x,), lambda grad: (y.backward(grad)[0] * n_shared / n_heads,))


def first_copy_alone(x, n_shared, n_heads):
    y, width = right.share(x, n_shared, n_heads), x.data.shape[1] // n_shared

    def backward(grad):
        heads = grad.reshape(len(grad), n_shared, n_heads // n_shared, width)
        return (heads[:, :, 0].reshape(x.data.shape),)

    return Var(y.data, (x,), backward)


SHARE = Exercise(
    "my_llm.share",
    share_inputs,
    reference=right.share,
    tested="one head for two, two for four and for six: data and gradient",
    parts=data_and_gradients("x"),
    mistakes=(
        Mistake("The heads stand in turn, 0 1 0 1; neighbors share a head: 0 0 1 1.", tiled),
        Mistake("Single numbers are repeated; repeat whole heads of d_k numbers.", numbers_repeated),
        Mistake("The gradient is the mean over the copies; a head that is used twice gets the sum.", mean_backward),
        Mistake("The gradient is that of the first copy alone: all copies send one back.", first_copy_alone),
    ),
    through=through_vars("x", others=["n_shared", "n_heads"]),
)

# -- look_up ----------------------------------------------------------------------------------------------------------


def look_up_inputs(rng):
    for d, ids in ((4, (3, 5, 3)), (6, (4, 1, 2, 4))):
        yield rng.standard_normal((6, d)), np.array(ids), rng.standard_normal((len(ids), d))


def of_last_place(table, ids):
    y = right.look_up(table, ids).data
    return Var(y, (table,), lambda grad: (last_row_alone(grad, ids, len(table.data)),))


LOOK_UP = Exercise(
    "my_llm.look_up",
    look_up_inputs,
    reference=right.look_up,
    tested="data and the table's gradient, with a token that stands twice",
    parts=data_and_gradients("table"),
    mistakes=(
        Mistake(
            "Positions are added to the rows; in this model the rotation brings them: return the rows alone.",
            lambda table, ids: Var(
                right.look_up(table, ids).data + sinusoids(len(ids), table.data.shape[1]),
                (table,),
                right.look_up(table, ids).backward,
            ),
        ),
        Mistake("A token that stands twice gets the gradient of its last place alone.", of_last_place),
        deaf(right.look_up),
    ),
    through=through_vars("table", others=["ids"]),
)
