"""Exercises of ``my_transformer``, step 2: products and the feed-forward layer as operations on Vars."""

from inspect import Parameter, Signature

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.glue_vars import data_and_gradients, seen
from solutions import my_transformer as right
from solutions.my_transformer import Var, project

# -- operations in general --------------------------------------------------------------------------------------------


def through_vars(*inputs, others=()):
    """Of functions of Vars with these names, and of ``others``: data and gradients of what they return."""

    def through(function):
        def seen_function(*arguments):
            given = [Var(each) for each in arguments[: len(inputs)]]
            return seen(function(*given, *arguments[len(inputs) : -1]), arguments[-1], given)

        return with_names(seen_function, *inputs, *others, "cotangent")

    return through


def with_names(function, *names):
    """The function, of whose arguments messages know these names."""
    function.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])
    return function


def deaf(function):
    """The mistake of a backward that knows no other gradient than ones."""

    def wrong(*inputs):
        y = function(*inputs)
        return Var(y.data, y.parents, lambda grad: y.backward(np.ones_like(grad)))

    return Mistake("The backward does not use the gradient that it is given.", wrong)


def with_gradients(function, change):
    """The right function, whose backward returns ``change(the right gradients)``."""

    def wrong(*inputs):
        y = function(*inputs)
        return Var(y.data, y.parents, lambda grad: change(y.backward(grad)))

    return wrong


def mistakes_of(function):
    """What goes wrong with every operation."""
    return (
        deaf(function),
        Mistake(
            "Only x gets a gradient. What is learned is a parent too, and gets its own.",
            with_gradients(function, lambda grads: (grads[0], *map(np.zeros_like, grads[1:]))),
        ),
    )


# -- 2: products and the feed-forward layer ---------------------------------------------------------------------------


def project_inputs(rng):
    for n, d_in, d_out in ((2, 2, 2), (3, 4, 5)):
        yield tuple(rng.standard_normal(shape) for shape in ((n, d_in), (d_in, d_out), (n, d_out)))


PROJECT = Exercise(
    "my_transformer.project",
    project_inputs,
    reference=right.project,
    tested="data and gradients of x and w, two shapes",
    parts=data_and_gradients("x", "w"),
    mistakes=mistakes_of(right.project),
    through=through_vars("x", "w"),
)


def feed_inputs(rng):
    for n, d, d_ff in ((2, 3, 3), (3, 4, 6)):
        yield tuple(rng.standard_normal(shape) for shape in ((n, d), (d, d_ff), (d_ff,), (d_ff, d), (d,), (n, d)))


FEED = Exercise(
    "my_transformer.feed",
    feed_inputs,
    reference=right.feed,
    tested="data and the gradients of all five parents, two shapes",
    parts=data_and_gradients("x", "w1", "b1", "w2", "b2"),
    mistakes=mistakes_of(right.feed),
    through=through_vars("x", "w1", "b1", "w2", "b2"),
)


def logits_inputs(rng):
    for n, d, vocab_size in ((2, 3, 3), (3, 4, 4)):
        yield tuple(rng.standard_normal(shape) for shape in ((n, d), (vocab_size, d), (n, vocab_size)))


LOGITS_OF = Exercise(
    "my_transformer.logits_of",
    logits_inputs,
    reference=right.logits_of,
    tested="data and gradients of x and the table, two shapes",
    parts=data_and_gradients("x", "table"),
    mistakes=(
        *mistakes_of(right.logits_of),
        Mistake(
            "x is multiplied by the table itself; the logits need its transpose, a column for each token.", project
        ),
        Mistake(
            "The table's gradient is transposed: it has the table's shape, a row for each token.",
            with_gradients(right.logits_of, lambda grads: (grads[0], grads[1].T)),
        ),
    ),
    through=through_vars("x", "table"),
)
