"""Planted faults of lesson 2: for each exercise, (wrong function, words that its message must hold)."""

import numpy as np

from solutions import lesson_02 as right


def product_only(grad_y, a, b):
    return b * grad_y, a * grad_y


def exchanged(grad_y, a, b):
    return right.two_paths(grad_y, a, b)[::-1]


def without_grad_y(grad_y, a, b):
    return right.two_paths(np.ones_like(grad_y), a, b)


def paths_multiplied(grad_y, a, b):
    return np.exp(a) * b * grad_y, a * grad_y


def sigmoid_alone(grad_y, saved):
    return (saved[0] - saved[0] ** 2,)


def sigmoid_of_y(grad_y, saved):
    e = np.exp(-saved[0])
    return (grad_y * e / (1 + e) ** 2,)


def sigmoid_bare(grad_y, saved):
    return grad_y * (saved[0] - saved[0] ** 2)


def sigmoid_like_tanh(grad_y, saved):
    return (grad_y * (1 - saved[0]) * (1 + saved[0]),)


def nearest_first(uses, last):
    order = [last]
    for op in order:
        order += [each for each in uses[op] if each not in order]
    return order


def forwards(uses, last):
    return right.order(uses, last)[::-1]


def every_path(uses, last):
    return [last, *(op for each in uses[last] for op in every_path(uses, each))]


def all_ops(uses, last):
    found = right.order(uses, last)
    return found + [op for op in range(len(uses)) if op not in found]


def inputs_of_the_last(uses, last):
    return [last, *uses[last]]


def replaced(tape, n_values):
    found = {tape[-1][1]: 1.0}
    for inputs, output, backward in tape[::-1]:
        found.update(zip(inputs, backward(found.get(output, 0.0)), strict=True))
    return [found.get(value, 0.0) for value in range(n_values)]


def never_started(tape, n_values):
    found = np.zeros(n_values)
    for inputs, output, backward in tape[::-1]:
        found[list(inputs)] += backward(found[output])
    return found.tolist()


def once_per_op(tape, n_values):
    found = np.zeros(n_values)
    found[tape[-1][1]] = 1.0
    for inputs, output, backward in tape[::-1]:
        found[list(inputs)] += backward(found[output])  # an index that stands twice counts once
    return found.tolist()


def of_used_values_only(tape, n_values):
    return [grad for grad in right.gradients(tape, n_values) if grad]


FAULTS = {
    "two_paths": [
        (product_only, "the product's part alone"),
        (exchanged, "exchanged"),
        (without_grad_y, "grad_y is not used"),
        (paths_multiplied, "paths add"),
    ],
    "sigmoid_backward": [
        (sigmoid_alone, "grad_y is not used"),
        (sigmoid_of_y, "no further sigmoid"),
        (sigmoid_bare, "returns a tuple"),
        (sigmoid_like_tanh, "belongs to tanh"),
    ],
    "order": [
        (nearest_first, "which still owes it a gradient"),
        (forwards, "order of the forward pass"),
        (every_path, "is walked twice"),
        (all_ops, "the result does not use it"),
        (inputs_of_the_last, "is missing"),
    ],
    "gradients": [
        (replaced, "replaces the ones before it"),
        (never_started, "by itself is 1"),
        (once_per_op, "only one of them arrives"),
        (of_used_values_only, "must be a list of 5"),
    ],
}
