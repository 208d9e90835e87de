"""What the notebooks of the course share: print the engine's code, check a gradient, check an exercise."""

from course.checking import check
from course.gradients import check_gradient
from course.guesses import guess
from course.mine import mine
from course.source import show
from course.transplants import transplant

__all__ = ["check", "check_gradient", "guess", "mine", "show", "transplant"]
