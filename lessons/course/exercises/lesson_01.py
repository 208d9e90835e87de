"""Exercises of lesson 1: arrays and numerical gradients."""

import numpy as np

from course.exercise import Exercise, Mistake
from course.exercises.checkers import IS_RIGHT
from minitransformer.ops.elementwise import unbroadcast
from minitransformer.ops.linear import linear_backward, linear_forward

# -- centered ----------------------------------------------------------------------------------------------------------


def centered_inputs(rng):
    """Square on purpose: with unequal sizes a missing keepdims fails by itself."""
    return [(rng.integers(0, 9, shape).astype(float),) for shape in ((3, 3), (4, 4), (3, 3, 3))]


CENTERED = Exercise(
    "01_arrays.centered",
    centered_inputs,
    reference=lambda x: x - x.mean(axis=-1, keepdims=True),
    tested="square arrays of two and of three axes, in which a wrong axis does not fail by itself",
    mistakes=(
        Mistake(
            "keepdims is missing: the means lie along the rows, each is taken from a column. "
            "Write x.mean(axis=-1, keepdims=True).",
            lambda x: x - x.mean(axis=-1),
        ),
        Mistake("One mean for the whole array: each vector needs its own, over the last axis.", lambda x: x - x.mean()),
        Mistake(
            "The mean runs over the first axis: it adds up positions. The vector is the last axis.",
            lambda x: x - x.mean(axis=0, keepdims=True),
        ),
        Mistake(
            "The mean runs over axis=-2, the last but one: it adds up positions. The vector is the last axis.",
            lambda x: x - x.mean(axis=-2, keepdims=True),
        ),
        Mistake(
            "The mean runs over axis 1, which is the last axis only if there are two. axis=-1 is always the last.",
            lambda x: x - x.mean(axis=1, keepdims=True),
        ),
        Mistake(
            "One mean for each x[i]: with three axes that is a whole matrix. The vector is the last axis alone.",
            lambda x: x - x.mean(axis=tuple(range(1, x.ndim)), keepdims=True),
        ),
        Mistake(
            "The means are returned; they are to be subtracted from x.", lambda x: 0 * x + x.mean(-1, keepdims=True)
        ),
    ),
)

# -- numerical_gradient -----------------------------------------------------------------------------------------------


def sum_of_cubes(x):
    return float((x**3).sum())


def product_of_exponentials(x):
    return float(np.exp(0.3 * x.sum()))


def numerical_gradient_inputs(rng):
    yield sum_of_cubes, np.array([2.0]), 0.1
    yield sum_of_cubes, rng.standard_normal(3), 0.05
    yield product_of_exponentials, rng.standard_normal((2, 3)), 0.1


def differences(ahead, behind, width, keep=False):
    """(f(x + ahead h) - f(x + behind h)) / (width h), number by number; ``keep`` leaves each number moved."""

    def gradient(f, x, h):
        found, base = np.zeros(x.shape), x.copy()
        for index in np.ndindex(x.shape):
            up, down = base.copy(), base.copy()
            up[index] += ahead * h
            down[index] += behind * h
            found[index] = (f(up) - f(down)) / (width * h)
            base = down if keep else base
        return found

    return gradient


def row_by_row(f, x, h):
    """The slope along all of x[i] at once."""
    found = np.zeros(x.shape)
    for i in range(len(x)):
        step = np.zeros(x.shape)
        step[i] = h
        found[i] = (f(x + step) - f(x - step)) / (2 * h)
    return found


NUMERICAL_GRADIENT = Exercise(
    "01_arrays.numerical_gradient",
    numerical_gradient_inputs,
    reference=differences(1, -1, 2),
    tested="two functions on one number, a vector and a matrix, with large steps that tell the formulas apart",
    mistakes=(
        Mistake("The difference is one-sided, f(x + h) - f(x): its error falls only with h.", differences(1, 0, 1)),
        Mistake("The difference is one-sided, f(x) - f(x - h): its error falls only with h.", differences(0, -1, 1)),
        Mistake("Twice too large: from x - h to x + h it is 2 h.", differences(1, -1, 1)),
        Mistake("The sign is wrong: it is f(x + h) - f(x - h).", differences(-1, 1, 2)),
        Mistake("The division by the step is missing.", lambda f, x, h: 2 * h * differences(1, -1, 2)(f, x, h)),
        Mistake(
            "A number that was moved is not put back before the next one is tried: the point wanders off.",
            differences(1, -1, 2, keep=True),
        ),
        Mistake(
            "In a matrix x[i] is a whole row, and all of it is moved at once. np.ndindex(x.shape) names each number.",
            row_by_row,
        ),
        Mistake(
            "All numbers are moved at once: that is the slope along (1, 1, ...), one number for the whole array.",
            lambda f, x, h: np.full(x.shape, (f(x + h) - f(x - h)) / (2 * h)),
        ),
    ),
)

# -- linear_backward --------------------------------------------------------------------------------------------------


def linear_inputs(rng):
    for positions, width in ((2, 2), (3, 3), (5, 3)):
        yield tuple(rng.standard_normal(shape) for shape in ((positions, width), (positions, width), (width, width)))


def backward_of_linear(grad_y, x, weight):
    return linear_backward(grad_y, linear_forward(x, weight, np.zeros(weight.shape[1]))[1])


def with_part(position, part):
    """The right gradients but for one of the three."""

    def wrong(grad_y, x, weight):
        gradients = list(backward_of_linear(grad_y, x, weight))
        gradients[position] = part(grad_y, x, weight)
        return tuple(gradients)

    return wrong


LINEAR_BACKWARD = Exercise(
    "01_arrays.linear_backward",
    linear_inputs,
    reference=backward_of_linear,
    tested="two, three and five positions with square weights, against the engine's linear_backward",
    parts=("grad_x", "grad_weight", "grad_bias"),
    mistakes=(
        Mistake(
            "The weight is not transposed in grad_x: x_ti meets W_ij over j, the outputs.",
            with_part(0, lambda grad_y, x, weight: grad_y @ weight),
        ),
        Mistake(
            "grad_weight is too small by the number of positions: the weight served them all, take the sum.",
            with_part(1, lambda grad_y, x, weight: x.T @ grad_y / len(x)),
        ),
        Mistake(
            "grad_bias is too small by the number of positions: the bias was added to each; sum, not mean.",
            with_part(2, lambda grad_y, x, weight: grad_y.mean(axis=0)),
        ),
        Mistake(
            "grad_weight and grad_bias are too small by the number of positions: take sums, not means.",
            lambda grad_y, x, weight: (grad_y @ weight.T, x.T @ grad_y / len(x), grad_y.mean(axis=0)),
        ),
        Mistake(
            "grad_bias is summed over the outputs; sum over t, the positions.",
            with_part(2, lambda grad_y, x, weight: grad_y.sum(axis=1)),
        ),
        Mistake(
            "grad_bias is the sum of x; the bias does not meet x, its slope is 1.",
            with_part(2, lambda grad_y, x, weight: x.sum(axis=0)),
        ),
        Mistake(
            "The transposed grad_weight is returned: row i belongs to input i, column j to output j.",
            with_part(1, lambda grad_y, x, weight: grad_y.T @ x),
        ),
    ),
)

# -- unbroadcast ------------------------------------------------------------------------------------------------------


def unbroadcast_inputs(rng):
    yield from ((rng.standard_normal((2, 3)), small) for small in ((3,), (2, 1), (), (2, 3)))
    yield from ((rng.standard_normal((4, 2, 3)), small) for small in ((2, 1), (1, 2, 1)))


def copies(grad, shape):
    """How many copies of each number broadcasting made."""
    return grad.size / np.prod(shape, dtype=float)


def one_copy(grad, shape):
    grad = grad[(0,) * (grad.ndim - len(shape))]
    return grad[tuple(slice(0, size) for size in shape)]


def of_leading_axes(grad, shape):
    """Sums the axes in front; of a stretched axis it takes the first copy."""
    return one_copy(grad.sum(axis=tuple(range(grad.ndim - len(shape)))), shape)


def of_stretched_axes(grad, shape):
    """Sums the stretched axes; of the axes in front it takes the first copy."""
    return unbroadcast(grad[(0,) * (grad.ndim - len(shape))], shape)


def without_keepdims(grad, shape):
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    return grad.sum(axis=tuple(i for i, size in enumerate(shape) if size == 1))


UNBROADCAST = Exercise(
    "01_arrays.unbroadcast",
    unbroadcast_inputs,
    reference=lambda grad, shape: unbroadcast(grad, shape),
    tested="axes put in front, one and two stretched axes, both, all and none, against the engine's unbroadcast",
    mistakes=(
        Mistake(
            "Too small by the number of copies: each copy had its own effect on the loss, take the sum, not the mean.",
            lambda grad, shape: unbroadcast(grad, shape) / copies(grad, shape),
        ),
        Mistake("Only the first copy's gradient is kept: the copies add up.", one_copy),
        Mistake(
            "An axis that was stretched from 1 is not summed, only the axes put in front: one of its copies is kept.",
            of_leading_axes,
        ),
        Mistake(
            "The axes put in front are not summed, only those stretched from 1: one of their copies is kept.",
            of_stretched_axes,
        ),
        Mistake(
            "The stretched axes are summed but gone: keep them, with keepdims=True, so that the result has the shape.",
            without_keepdims,
        ),
        Mistake(
            "Everything is summed to one number; only the axes that broadcasting repeated are to be summed.",
            lambda grad, shape: grad.sum(),
        ),
        Mistake(
            "Everything is summed, and every place gets the whole sum; sum only the axes that broadcasting repeated.",
            lambda grad, shape: np.full(shape, grad.sum()),
        ),
    ),
)

EXERCISES = (CENTERED, NUMERICAL_GRADIENT, LINEAR_BACKWARD, UNBROADCAST, IS_RIGHT)
