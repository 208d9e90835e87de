"""What the notebooks of the course share: print the engine's code, check a gradient, check an exercise."""

from course.checking import check
from course.gradients import check_gradient
from course.source import show

__all__ = ["check", "check_gradient", "show"]
