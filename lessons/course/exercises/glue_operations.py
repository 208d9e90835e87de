"""Exercises of ``my_transformer``, step 2: products and the feed-forward layer as operations on Vars."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.glue_vars import data_and_gradients, seen
from solutions import my_transformer as right
from solutions.my_transformer import Var, project


def with_backward(function, backward):
    """The right function, whose result has ``backward(its right rule, grad, the inputs' data)``."""

    def wrong(*inputs):
        y = function(*inputs)
        data = [each.data for each in inputs]
        return Var(y.data, y.parents, lambda grad: backward(y.backward, grad, *data))

    return wrong


def mistakes_of(function):
    """What goes wrong with every operation."""
    return (
        Mistake(
            "The backward does not use the gradient that it is given.",
            with_backward(function, lambda rule, grad, *data: rule(np.ones_like(grad))),
        ),
        Mistake(
            "Only x gets a gradient. What is learned is a parent too, and gets its own.",
            with_backward(function, lambda rule, grad, *data: (rule(grad)[0], *map(np.zeros_like, data[1:]))),
        ),
    )


def through_project(project):
    def seen_project(x, w, cotangent):
        inputs = [Var(x), Var(w)]
        return seen(project(*inputs), cotangent, inputs)

    return seen_project


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
    through=through_project,
)


def through_feed(feed):
    def seen_feed(x, w1, b1, w2, b2, cotangent):
        inputs = [Var(each) for each in (x, w1, b1, w2, b2)]
        return seen(feed(*inputs), cotangent, inputs)

    return seen_feed


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
    through=through_feed,
)


def through_logits_of(logits_of):
    def seen_logits(x, table, cotangent):
        inputs = [Var(x), Var(table)]
        return seen(logits_of(*inputs), cotangent, inputs)

    return seen_logits


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
            with_backward(right.logits_of, lambda rule, grad, x, table: (rule(grad)[0], x.T @ grad)),
        ),
    ),
    through=through_logits_of,
)
