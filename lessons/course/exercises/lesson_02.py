"""Exercises of lesson 2: the tape."""

import numpy as np

from course.compare import in_form_of
from course.exercise import Exercise, Mistake

# -- two_paths --------------------------------------------------------------------------------------------------------


def two_paths_inputs(rng):
    yield np.array([1.0]), np.array([0.0]), np.array([3.0])
    for shape in ((3,), (2, 2)):
        yield tuple(rng.standard_normal(shape) for _ in range(3))


TWO_PATHS = Exercise(
    "02_tape.two_paths",
    two_paths_inputs,
    reference=lambda grad_y, a, b: (grad_y * (b + np.exp(a)), grad_y * a),
    tested="one number, a vector and a matrix, against the closed form",
    parts=("grad_a", "grad_b"),
    mistakes=(
        Mistake(
            "grad_a is the product's part alone: a is used twice, the exponential sends a gradient too.",
            lambda grad_y, a, b: (grad_y * b, grad_y * a),
        ),
        Mistake(
            "grad_a is the exponential's part alone: a is used twice, the product sends a gradient too.",
            lambda grad_y, a, b: (grad_y * np.exp(a), grad_y * a),
        ),
        Mistake(
            "The two gradients are exchanged: the first belongs to a.",
            lambda grad_y, a, b: (grad_y * a, grad_y * (b + np.exp(a))),
        ),
        Mistake(
            "grad_y is not used: every path ends with the gradient that comes from above.",
            lambda grad_y, a, b: (b + np.exp(a), a),
        ),
        Mistake(
            "grad_y is missing on the path through the exponential.",
            lambda grad_y, a, b: (grad_y * b + np.exp(a), grad_y * a),
        ),
        Mistake(
            "The gradients of the two paths are multiplied; paths add, steps along one path multiply.",
            lambda grad_y, a, b: (grad_y * b * np.exp(a), grad_y * a),
        ),
        Mistake(
            "In the product each factor gets the other one: a's gradient holds b, and b's holds a.",
            lambda grad_y, a, b: (grad_y * (a + np.exp(a)), grad_y * b),
        ),
    ),
)

# -- sigmoid_backward -------------------------------------------------------------------------------------------------


def sigmoid_inputs(rng):
    for shape in ((2,), (3,), (2, 3)):
        yield rng.standard_normal(shape), (1.0 / (1.0 + np.exp(-2 * rng.standard_normal(shape))),)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


SIGMOID_BACKWARD = Exercise(
    "02_tape.sigmoid_backward",
    sigmoid_inputs,
    reference=lambda grad_y, saved: (grad_y * saved[0] * (1.0 - saved[0]),),
    tested="vectors and a matrix, with random grad_y, against the closed form",
    mistakes=(
        Mistake(
            "grad_y is not used: the derivative of the op is only the last factor of the chain.",
            lambda grad_y, saved: (saved[0] * (1.0 - saved[0]),),
        ),
        Mistake(
            "saved holds the output y, not x; no further sigmoid is needed.",
            lambda grad_y, saved: (grad_y * sigmoid(saved[0]) * (1.0 - sigmoid(saved[0])),),
        ),
        Mistake("The factor 1 - y is missing.", lambda grad_y, saved: (grad_y * saved[0],)),
        Mistake("The factor y is missing.", lambda grad_y, saved: (grad_y * (1.0 - saved[0]),)),
        Mistake(
            "1 - y^2 belongs to tanh; the sigmoid has y (1 - y).",
            lambda grad_y, saved: (grad_y * (1.0 - saved[0] ** 2),),
        ),
        Mistake(
            "A backward returns a tuple, one gradient per input, also where there is one: `return (grad_x,)`.",
            lambda grad_y, saved: grad_y * saved[0] * (1.0 - saved[0]),
        ),
    ),
)

# -- order ------------------------------------------------------------------------------------------------------------


def order_inputs(rng):
    """A chain, a diamond, a shortcut past a longer path, an op that is not used, and a random graph."""
    yield [[], [0]], 1
    yield [[3], [0, 2], [3], []], 1
    yield [[2, 1], [2], [3], []], 0
    yield [[], [0], [0], [1, 0]], 3
    names = rng.permutation(9).tolist()
    uses = [[] for _ in names]
    for i in range(1, 9):
        uses[names[i]] = [names[j] for j in sorted({i - 1, int(rng.integers(0, i))})]
    yield uses, names[8]


def behind(uses, last):
    found = [last]
    for op in found:
        found += [each for each in uses[op] if each not in found]
    return set(found)


def wrong_order(function, uses, last):
    """What is wrong with the order, or None."""
    order, needed = in_form_of([], function(uses, last)), behind(uses, last)
    told = f"for uses = {uses}, last = {last}; got {order}"
    if not isinstance(order, (list, tuple)) or not all(isinstance(op, (int, np.integer)) for op in order):
        return f"The result must be a list of op numbers {told}."
    twice = next((op for op in order if list(order).count(op) > 1), None)
    if twice is not None:
        return f"Op {twice} is walked twice: its gradients are to be added first, then it is walked once, {told}."
    if needed - set(order):
        return f"Op {min(needed - set(order))} is missing: the result depends on it, {told}."
    if set(order) - needed:
        return f"Op {min(set(order) - needed)} is walked, but the result does not use it, {told}."
    place = {op: i for i, op in enumerate(order)}
    if place[last] != 0 and all(place[each] < place[op] for op in needed for each in uses[op]):
        return f"This is the order of the forward pass; backward walks the other way, {told}."
    early = next(((each, op) for op in order for each in uses[op] if place[each] < place[op]), None)
    if early:
        return f"Op {early[0]} is walked before op {early[1]}, which still owes it a gradient, {told}."
    return None


ORDER = Exercise(
    "02_tape.order",
    order_inputs,
    reference=None,
    tested="a chain, a diamond, a shortcut past a longer path, an unused op and a random graph of nine ops",
    properties=(wrong_order,),
)

# -- gradients --------------------------------------------------------------------------------------------------------


def entry(inputs, output, slopes):
    """An op of these slopes; more does no tape need to know of it."""

    def backward(grad):
        return [grad * slope for slope in slopes]

    backward.__name__ = f"grad times {slopes}"
    return tuple(inputs), output, backward


def addition(grad):
    """Of an addition: the same array goes to both inputs."""
    return [grad, grad]


def total(grad):
    """Of the sum of an array of three numbers."""
    return [grad * np.ones(3)]


def arrays(rng):
    """y = sum(((x + x) + x) * factor), and a leaf that is not used."""
    factor = rng.uniform(0.5, 2.0, 3)
    times = entry([2], 3, [factor])
    return [((0, 0), 1, addition), ((1, 0), 2, addition), times, ((3,), 4, total)], 6


def gradients_inputs(rng):
    yield [entry([0], 1, [3.0])], 2
    yield [entry([0, 0], 1, [3.0, 3.0]), entry([1, 0], 2, [1.0, 1.0])], 3
    yield [entry([0], 1, [2.0]), entry([1], 2, [3.0]), entry([1, 2], 3, [1.0, 1.0])], 4
    yield [entry([0, 1], 2, [2.0, -1.0]), entry([0], 3, [5.0]), entry([2, 2], 4, [0.5, 4.0])], 5
    yield [entry([0], 2, [3.0]), entry([2, 3], 1, [1.0, 2.0])], 4
    tape = []
    for output in range(2, 10):
        inputs = [output - 1, *rng.integers(0, output, 2).tolist()]
        tape.append(entry(inputs, output, rng.uniform(0.5, 2.0, 3).round(2).tolist()))
    yield tape, 10
    yield arrays(rng)
    yield [((0, 0), 1, addition), ((1, 0), 2, addition), ((2,), 3, total)], 4


def gradients(
    tape, n_values, *, overwrite=False, start=1.0, forward_order=False, once=False, result=None, in_place=False
):
    """The walk, with what each mistake does."""
    found = [0.0] * n_values
    found[tape[-1][1] if result is None else result] = start
    for inputs, output, backward in tape if forward_order else reversed(tape):
        pairs = list(zip(inputs, backward(found[output]), strict=True))
        for value, grad in dict(pairs).items() if once else pairs:
            if in_place and isinstance(found[value], np.ndarray):
                found[value] += grad
            else:
                found[value] = grad if overwrite or (in_place and found[value] == 0.0) else found[value] + grad
    return found


GRADIENTS = Exercise(
    "02_tape.gradients",
    gradients_inputs,
    reference=lambda tape, n_values: gradients(tape, n_values),
    tested="a chain, values used twice by one op and by two, an op that is not used, eight random ops, and arrays",
    mistakes=(
        Mistake(
            "The last gradient that arrives replaces the ones before it: add them, a value gets one for each use.",
            lambda tape, n_values: gradients(tape, n_values, overwrite=True),
        ),
        Mistake(
            "The result's gradient with respect to itself is 1; without it everything stays 0.",
            lambda tape, n_values: gradients(tape, n_values, start=0.0),
        ),
        Mistake(
            "The walk starts at the value with the highest number; the result is the output of the tape's last entry.",
            lambda tape, n_values: gradients(tape, n_values, result=-1),
        ),
        Mistake(
            "The tape is walked forwards: start from its last entry.",
            lambda tape, n_values: gradients(tape, n_values, forward_order=True),
        ),
        Mistake(
            "The tape is walked forwards: start from its last entry.",
            lambda tape, n_values: gradients(tape, n_values, forward_order=True, result=-1),
        ),
        Mistake(
            "An op that uses one value twice sends it two gradients; only one of them arrives.",
            lambda tape, n_values: gradients(tape, n_values, once=True),
        ),
        Mistake(
            "The array that arrived first is kept, and the next one is added into it. But an addition hands one and "
            "the same array to both inputs: what one gains, the other gains too. Write found[v] = found[v] + grad.",
            lambda tape, n_values: gradients(tape, n_values, in_place=True),
        ),
    ),
)

EXERCISES = (TWO_PATHS, SIGMOID_BACKWARD, ORDER, GRADIENTS)
