"""Exercises of ``my_transformer``, steps 4 and 7: shapes, views of one vector, its first values, and Adam over it."""

import math
from functools import wraps

import numpy as np

from course.calls import Trouble, is_unfilled
from course.exercise import Exercise, Mistake
from solutions import my_transformer as right

# -- shapes -----------------------------------------------------------------------------------------------------------


def a_dict(found):
    """What was returned, if it is a dict or waits to be written."""
    if not is_unfilled(found) and not isinstance(found, dict):
        raise Trouble(f"The result must be a dict by name, got a {type(found).__name__}.")
    return found


def through_shapes_of(shapes_of):
    return wraps(shapes_of)(lambda *sizes: a_dict(shapes_of(*sizes)))


def names_and_shapes_of(right_shapes_of):
    """The property of naming the same parameters, in the same shapes."""

    def names_and_shapes(shapes_of, *sizes):
        expected, got = right_shapes_of(*sizes), shapes_of(*sizes)
        called = f"It was called with {shapes_of.arguments_text(sizes)}."
        missing, other = [name for name in expected if name not in got], [name for name in got if name not in expected]
        if missing or other:
            found = f"Names that are missing: {len(missing)}" + (f", such as {missing[0]!r}" if missing else "")
            unknown = f"; {other[0]!r} is a name that no part reads" if other else ""
            return f"{found}{unknown}. {called}"
        for name, shape in expected.items():
            given = np.ravel(got[name])
            if given.dtype.kind not in "iu" or list(given) != list(shape):  # a float is no size
                return f"{name!r} must have the shape {shape}, got {got[name]}. {called}"
        return None

    return names_and_shapes


def shapes_with(change):
    """The right dict without the entries for which ``change(name, shape)`` is None; else that is their shape."""

    def wrong(*sizes):
        changed = {name: change(name, shape) for name, shape in right.shapes_of(*sizes).items()}
        return {name: shape for name, shape in changed.items() if shape is not None}

    return wrong


LAST_NORM = {"encoder": " 1", "decoder": " 2", "table": "no norm"}

SHAPES_OF = Exercise(
    "my_transformer.shapes_of",
    lambda rng: iter(((5, 1, 2, 3), (9, 2, 4, 6), (int(rng.integers(7, 20)), 3, 8, 16))),
    reference=right.shapes_of,
    tested="one, two and three layers, every name and shape",
    mistakes=(
        Mistake(
            "The decoder has no cross-attention: four matrices more in each of its layers, and a norm.",
            shapes_with(lambda name, shape: None if "cross" in name or name.endswith(" 2") else shape),
        ),
        Mistake(
            "A norm is missing in each layer: there is one after every attention and one after the feed-forward layer.",
            shapes_with(lambda name, shape: None if name.endswith(LAST_NORM[name[:7]]) else shape),
        ),
        Mistake(
            "w2 leads back: from d_ff to d_model.",
            shapes_with(lambda name, shape: shape[::-1] if name.endswith("w2") else shape),
        ),
    ),
    properties=(names_and_shapes_of(right.shapes_of),),
    through=through_shapes_of,
)

# -- views ------------------------------------------------------------------------------------------------------------

FEW = {"table": (3, 2), "w": (2, 2), "b": (2,)}


def through_views(views):
    def seen_views(vector, shapes):
        p = a_dict(views(vector, shapes))
        if is_unfilled(p):
            return p
        if not all(hasattr(each, "data") and hasattr(each, "parents") for each in p.values()):
            raise Trouble("Each value of the dict must be a Var, whose data is a piece of the vector.")
        return {name: each.data for name, each in p.items()}

    return seen_views


def pieces(views, vector, shapes):
    expected, got = through_views(right.views)(vector, shapes), views(vector, shapes)
    for name in expected:
        if name not in got:
            return f"{name!r} is missing: the dict has the names of `shapes`, which are {', '.join(shapes)}."
        if np.shape(got[name]) != shapes[name]:
            return f"{name!r} must have the shape {shapes[name]}, got {np.shape(got[name])}."
        if not np.array_equal(got[name], expected[name]):
            return f"{name!r} holds other numbers than its piece of the vector."
    return None


def nothing_copied(views, vector, shapes):
    def shares(vector, shapes):
        seen = through_views(views.function)(vector, shapes)
        return all(np.shares_memory(each, vector) for each in seen.values())

    if shares(vector.copy(), shapes):
        return None
    return "The pieces are copies. A slice, reshaped, shows the vector's own numbers, and copies nothing."


def views_with(piece):
    """Views of ``piece(vector, start, size, shape)``."""

    def wrong(vector, shapes):
        p, start = {}, 0
        for name, shape in shapes.items():
            p[name] = right.Var(piece(vector, start, math.prod(shape), shape))
            start += math.prod(shape)
        return p

    return wrong


VIEWS = Exercise(
    "my_transformer.views",
    lambda rng: (
        (rng.standard_normal(sum(map(math.prod, shapes.values()))), shapes)
        for shapes in (FEW, right.shapes_of(5, 1, 2, 3))
    ),
    reference=right.views,
    tested="three arrays and those of a small model, and that nothing is copied",
    mistakes=(
        Mistake(
            "Every piece begins at the vector's start: move on by the size of the last one.",
            views_with(lambda vector, start, size, shape: vector[:size].reshape(shape)),
        ),
        Mistake(
            "The numbers fill a matrix column by column; `reshape` fills it row by row.",
            views_with(lambda vector, start, size, shape: vector[start : start + size].reshape(shape, order="F")),
        ),
    ),
    properties=(pieces, nothing_copied),
    through=through_views,
)

# -- first values -----------------------------------------------------------------------------------------------------


def a_vector(first_vector, shapes, rng):
    vector, size = first_vector(shapes, rng), sum(map(math.prod, shapes.values()))
    if np.shape(vector) != (size,):
        got = f"an array of shape {np.shape(vector)}" if isinstance(vector, np.ndarray) else type(vector).__name__
        return f"The result must be one vector of all {size:,} numbers, shape ({size},), got {got}."
    return None


def spreads(first_vector, shapes, rng):
    p = {name: each.data for name, each in right.views(first_vector(shapes, rng), shapes).items()}
    for name, array in p.items():
        if name.split()[-2:-1] == ["gamma"] and not (array == 1.0).all():
            return f"{name!r} must begin as ones: a norm that changes nothing yet."
        if array.ndim == 1 and "gamma" not in name and array.any():
            return f"{name!r} must begin as zeros, like every bias."
    matrices = {name: array for name, array in p.items() if array.ndim == 2}
    for name, array in matrices.items():
        wanted = shapes["table"][1] ** -0.5 if name == "table" else math.sqrt(2 / sum(array.shape))
        if not 0.85 < array.std() / wanted < 1.15 or abs(array.mean()) > 0.25 * wanted:
            rule = "1 / sqrt(d_model), lesson 8" if name == "table" else "Xavier's, lesson 6"
            found = f"mean {array.mean():.3f} and spread {array.std():.3f}"
            return f"{name!r}, {array.shape}, must have mean 0 and spread {wanted:.3f} ({rule}), got {found}."
    return None


def drawn_anew(first_vector, shapes, rng):
    vector = first_vector(shapes, rng)
    p = right.views(vector, shapes)
    if np.allclose(p["encoder 0 self q"].data, p["encoder 0 self k"].data):
        return "'encoder 0 self q' and 'encoder 0 self k' are equal: draw each matrix anew."
    if np.array_equal(vector, first_vector(shapes, np.random.default_rng(rng.integers(2**30)))):
        return "Another rng gives the same numbers: draw from the rng that you are given."
    return None


FIRST_VECTOR = Exercise(
    "my_transformer.first_vector",
    lambda rng: (
        (right.shapes_of(*sizes), np.random.default_rng(rng.integers(2**30)))
        for sizes in ((50, 1, 24, 64), (60, 2, 32, 16))
    ),
    reference=None,
    tested="two models: ones, zeros, and the spread of every matrix",
    properties=(a_vector, spreads, drawn_anew),
)

# -- Adam over the vector ---------------------------------------------------------------------------------------------


def update_inputs(rng):
    for n, t in ((2, 0), (3, 4)):
        vector, m, grad = rng.standard_normal((3, n))
        yield (vector, t * m / 10, t * rng.uniform(0.01, 0.1, n), t), grad, 0.01
    yield (vector, np.zeros(n), np.zeros(n), 0), 1e-8 * grad, 0.01  # so small that eps is seen


def update_with(count=lambda t: t + 1, beta1=0.9, beta2=0.98, eps=1e-9, after=lambda t: t + 1):
    def wrong(state, grad, rate):
        vector, m, v, t = state
        return *right.adam_step(vector, grad, m, v, count(t), rate, beta1, beta2, eps), after(t)

    return wrong


UPDATE = Exercise(
    "my_transformer.update",
    update_inputs,
    reference=right.update,
    tested="a first update, a fifth one, and one with tiny gradients",
    parts=("vector", "m", "v", "t"),
    mistakes=(
        Mistake("The number of updates does not go up: the new state has t + 1.", update_with(after=lambda t: t)),
        Mistake(
            "Adam's t is the number of this update, and the first is 1: t + 1, or it divides by zero.",
            update_with(count=lambda t: t),
        ),
        Mistake("beta_2 is 0.98 in section 5.3, not the usual 0.999.", update_with(beta2=0.999)),
        Mistake("epsilon is 10^-9 in section 5.3, not the usual 10^-8.", update_with(eps=1e-8)),
        Mistake("beta_1 and beta_2 are exchanged.", update_with(beta1=0.98, beta2=0.9)),
    ),
)
