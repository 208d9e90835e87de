"""Exercises of ``my_llm``, step 2: attention, and the shapes of all parameters."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.glue_parameters import names_and_shapes_of, through_shapes_of
from course.exercises.glue_vars import data_and_gradients, seen
from solutions import my_llm as right
from solutions.my_transformer import Var, attend, first_vector, project

SIZES = 2, 4, 2
"""Layers, heads, shared heads."""
SHAPES = right.shapes_of(9, 2, 8, 6, 4, 2)


def some_vector(rng):
    """Parameters of a small model, none of them zero or one."""
    vector = first_vector(SHAPES, rng)
    return vector + 0.3 * rng.standard_normal(vector.shape)


# -- attention --------------------------------------------------------------------------------------------------------


def through_attention(attention):
    def seen_attention(q, k, v, o, x, n_heads, n_shared, cotangent):
        p, x = dict(zip("qkvo", map(Var, (q, k, v, o)), strict=True)), Var(x)
        return seen(attention(p, x, n_heads, n_shared), cotangent, [x, *p.values()])

    return seen_attention


def attention_inputs(rng):
    for n, n_heads, n_shared in ((3, 2, 1), (4, 4, 2), (3, 4, 4)):
        d, d_shared = 2 * n_heads, 2 * n_shared
        shapes = (d, d), (d, d_shared), (d, d_shared), (d, d), (n, d)
        yield (
            *(rng.standard_normal(shape) / 2 for shape in shapes),
            n_heads,
            n_shared,
            rng.standard_normal((n, d)),
        )


def attention_with(turned="qk", mask=lambda n: np.tri(n, dtype=bool), projected=True):
    """Attention in which others are turned, with another mask, or without the last projection."""

    def attention(p, x, n_heads, n_shared):
        rows = {w: project(x, p[w]) for w in "qkv"}
        for w in turned:
            rows[w] = right.turn(rows[w], n_heads if w == "q" else n_shared, 0)
        k, v = (right.share(rows[w], n_shared, n_heads) for w in "kv")
        y = attend(rows["q"], k, v, mask(len(x.data)), n_heads)
        return project(y, p["o"]) if projected else y + project(x, Var(np.zeros_like(p["o"].data)))

    return attention


ATTENTION = Exercise(
    "my_llm.attention",
    attention_inputs,
    reference=right.attention,
    tested="two and four heads over one, two and four shared ones: data, and gradients of x and the four matrices",
    parts=data_and_gradients("x", *"qkvo"),
    mistakes=(
        Mistake("Queries and keys are not turned: without positions the order is lost.", attention_with("")),
        Mistake("The keys are not turned: only both rotations together know the distance.", attention_with("q")),
        Mistake("The queries are not turned: only both rotations together know the distance.", attention_with("k")),
        Mistake("The values are turned too; they carry the content, and no position.", attention_with("qkv")),
        Mistake("The future can be seen: the mask is causal.", attention_with(mask=lambda n: np.ones((n, n), bool))),
        Mistake("A position must see itself too.", attention_with(mask=lambda n: np.tri(n, k=-1, dtype=bool))),
        Mistake("The last projection, by W^O, is missing.", attention_with(projected=False)),
    ),
    through=through_attention,
)

# -- shapes_of --------------------------------------------------------------------------------------------------------


SHAPES_OF = Exercise(
    "my_llm.shapes_of",
    lambda rng: iter(((5, 1, 4, 3, 2, 1), (9, 2, 8, 6, 4, 2), (int(rng.integers(7, 20)), 3, 12, 16, 3, 3))),
    reference=right.shapes_of,
    tested="one, two and three layers, every name and shape",
    mistakes=(
        Mistake(
            "Keys and values are as wide as all heads; they have n_shared heads of d_model / n_heads.",
            lambda v, n, d, d_ff, h, shared: right.shapes_of(v, n, d, d_ff, h, h),
        ),
        Mistake(
            "The last norm, `gamma`, is missing: a stack of pre-norm layers ends with one.",
            lambda *sizes: {name: shape for name, shape in right.shapes_of(*sizes).items() if name != "gamma"},
        ),
        Mistake(
            "Keys and values are n_shared wide; each of their heads has d_model / n_heads numbers.",
            lambda v, n, d, d_ff, h, shared: (
                right.shapes_of(v, n, d, d_ff, h, shared) | {f"{i} {w}": (d, shared) for i in range(n) for w in "kv"}
            ),
        ),
    ),
    properties=(names_and_shapes_of(right.shapes_of),),
    through=through_shapes_of,
)
