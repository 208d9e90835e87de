"""Exercises of lesson 5: columns cut into heads, and heads merged into columns."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.shape import merge_heads_forward, split_heads_forward


def split(packed, n_heads):
    """The engine's split, of one sentence."""
    return split_heads_forward(packed[None], n_heads=n_heads, widths=(packed.shape[-1] // n_heads,))[0][0]


def merge(heads):
    return merge_heads_forward(heads[None])[0][0]


# -- split ------------------------------------------------------------------------------------------------------------


def split_inputs(rng):
    return [(np.arange(8.0).reshape(2, 4), 2), (rng.standard_normal((5, 12)), 3), (rng.standard_normal((4, 6)), 1)]


SPLIT = Exercise(
    "05_heads.split",
    split_inputs,
    reference=split,
    tested="one, two and three heads, against the engine's split_heads",
    mistakes=(
        Mistake(
            "The words are cut, not the columns: a reshape to (n_heads, T, d) alone walks along a whole word first. "
            "Reshape to (T, n_heads, d), then swap.",
            lambda packed, n_heads: packed.reshape(n_heads, len(packed), -1),
        ),
        Mistake(
            "The swap is missing: the axes are (T, n_heads, d), and the heads belong in front.",
            lambda packed, n_heads: packed.reshape(len(packed), n_heads, -1),
        ),
        Mistake(
            "The heads are interleaved, every n_heads-th column to one head. Head i owns columns i d to (i + 1) d.",
            lambda packed, n_heads: packed.reshape(len(packed), -1, n_heads).transpose(2, 0, 1),
        ),
        Mistake("The heads are in reverse order.", lambda packed, n_heads: split(packed, n_heads)[::-1]),
    ),
)

# -- merge ------------------------------------------------------------------------------------------------------------


def merge_inputs(rng):
    return [(np.arange(8.0).reshape(2, 2, 2),), (rng.standard_normal((3, 5, 4)),), (rng.standard_normal((1, 4, 6)),)]


MERGE = Exercise(
    "05_heads.merge",
    merge_inputs,
    reference=merge,
    tested="two, three heads and one, against the engine's merge_heads",
    mistakes=(
        Mistake(
            "The swap is missing: a reshape to (T, -1) alone puts several words of one head into one row.",
            lambda heads: heads.reshape(heads.shape[1], -1),
        ),
        Mistake(
            "The heads are interleaved: each row must hold all numbers of head 0, then all of head 1.",
            lambda heads: heads.transpose(1, 2, 0).reshape(heads.shape[1], -1),
        ),
        Mistake("The heads are in reverse order.", lambda heads: merge(heads[::-1])),
        Mistake(
            "The heads lie one after the other, a row for each word of each: they belong side by side.",
            lambda heads: heads.reshape(-1, heads.shape[2]),
        ),
    ),
)
