"""Exercises of lesson 19, parsing."""

from course.exercises.bracket_f1 import F1
from course.exercises.grammar_mask import ALLOWED
from course.exercises.tree_forms import ALIGNED, CONSTITUENTS, DELINEARISE, LINEARISE

EXERCISES = (LINEARISE, DELINEARISE, CONSTITUENTS, F1, ALLOWED, ALIGNED)
