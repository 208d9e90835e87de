"""Lesson 1: backwards, right and wrong, for a checker of the student's own."""

import numpy as np

from course.exercise import Exercise, Mistake
from minitransformer.ops.softmax import softmax_backward, softmax_forward

# -- is_right ---------------------------------------------------------------------------------------------------------


def cube(x):
    return x**3


def softmax_of(x):
    return softmax_forward(x)[0]


def tiny(x):
    return 1e-7 * x**3


def minute(x):
    return 1e-9 * np.sin(x)


def three_x_squared(grad_y, x):
    return grad_y * 3 * x**2


def two_x_squared(grad_y, x):
    return grad_y * 2 * x**2


def softmax_rule(grad_y, x):
    return softmax_backward(grad_y, (softmax_of(x),))[0]


def zeros(grad_y, x):
    return np.zeros_like(x)


def three_x_squared_reversed(grad_y, x):
    return three_x_squared(grad_y, x)[::-1].copy()


def right_in_the_first_number_alone(grad_y, x):
    gradient = three_x_squared(grad_y, x)
    return np.append(gradient[:1], 2 * gradient[1:])


def three_x_squared_times_1e_7(grad_y, x):
    return 1e-7 * three_x_squared(grad_y, x)


def three_x_squared_times_3e_7(grad_y, x):
    return 3e-7 * three_x_squared(grad_y, x)


def cosine_times_2e_9(grad_y, x):
    return 2e-9 * grad_y * np.cos(x)


def three_x_squared_alone(grad_y, x):
    return 3 * x**2


ONES = "with grad_y of ones the loss is the plain sum, which a softmax does not change. Draw grad_y at random."
JUDGED = {
    three_x_squared: (cube, True, "The right backward of x^3 was called wrong."),
    two_x_squared: (cube, False, "For x^3 the gradient 2 x^2 was called right."),
    three_x_squared_reversed: (
        cube,
        False,
        "A gradient with its numbers in reverse order was called right: a change of all inputs alike sees only their "
        "sum. Draw the direction at random.",
    ),
    right_in_the_first_number_alone: (
        cube,
        False,
        "A gradient that is right in its first number alone was called right: move every number of x, and let no "
        "number of grad_y be 0.",
    ),
    softmax_rule: (softmax_of, True, f"The right backward of a softmax was called wrong: {ONES}"),
    zeros: (softmax_of, False, f"A backward of zeros after a softmax was called right: {ONES}"),
    three_x_squared_times_1e_7: (tiny, True, "A right gradient of size 1e-7 was called wrong."),
    three_x_squared_times_3e_7: (
        tiny,
        False,
        "A gradient of size 1e-7 was called right although it is three times too large: compare relative to its size.",
    ),
    cosine_times_2e_9: (
        minute,
        False,
        "A gradient of size 1e-9 was called right although it is twice too large. np.allclose and np.isclose forgive "
        "1e-8 whatever the size: give atol=0.",
    ),
    three_x_squared_alone: (
        cube,
        False,
        "A backward that ignores grad_y was called right. Draw grad_y at random, and forgive a thousandth at most.",
    ),
}
"""(forward, whether the backward is right, what to say of the other answer), of each backward to judge."""


def judged_inputs(rng):
    x = 1.1 + 0.4 * rng.random(5)  # the cosine is not near zero
    return [(forward, backward, x) for backward, (forward, *_) in JUDGED.items()]


def misjudged(function, forward, backward, x):
    _, right, message = JUDGED[backward]
    return None if bool(function(forward, backward, x)) == right else message


IS_RIGHT = Exercise(
    "01_arrays.is_right",
    judged_inputs,
    reference=lambda forward, backward, x: JUDGED[backward][1],
    tested="three right backwards and seven wrong ones: a factor, zeros, reversed, right in one number alone, of size "
    "1e-7 and 1e-9, and one that ignores grad_y",
    mistakes=(
        Mistake("Everything was called right.", lambda forward, backward, x: True),
        Mistake("Everything was called wrong.", lambda forward, backward, x: False),
        Mistake("True and False are exchanged.", lambda forward, backward, x: not JUDGED[backward][1]),
    ),
    properties=(misjudged,),
)
