"""Exercises of lesson 19, parsing."""

from course.exercises.bracket_f1 import F1
from course.exercises.grammar_mask import ALLOWED
from course.exercises.tree_forms import ALIGNED, CONSTITUENTS, DELINEARIZE, LINEARIZE

EXERCISES = (LINEARIZE, DELINEARIZE, CONSTITUENTS, F1, ALLOWED, ALIGNED)
