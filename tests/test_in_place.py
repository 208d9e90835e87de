"""The backward pass of training, in which sums grow in place, against the plain one."""

import numpy as np

from minitransformer.autograd import apply
from minitransformer.kernels.destination import NEW
from minitransformer.nn.module import Module, Parameter, ParameterVector
from minitransformer.ops.rule import Rule


def left_in(to, grad):
    """As a kernel does that knows destinations."""
    if to is None or to.array is None:
        return grad
    to.array[...] = grad + (to.array if to.add else 0)
    return to.array


RULES = {  # with and without `accumulates` they compute the same; a sum hands the same array to both sides
    "identity": (1, lambda x: (x, ()), lambda grad_y, saved, into=(): (grad_y,)),
    "sum": (2, lambda x, y: (x + y, ()), lambda grad_y, saved, into=(): (grad_y, grad_y)),
    "triple": (1, lambda x: (3 * x, ()), lambda grad_y, saved, into=(NEW,): (left_in(into[0], 3 * grad_y),)),
    "difference": (
        2,
        lambda x, y: (2 * x - y, ()),
        lambda grad_y, saved, into=(NEW, NEW): (left_in(into[0], 2 * grad_y), left_in(into[1], -grad_y)),
    ),
}


def test_sums_that_grow_in_place_are_those_of_new_arrays(rng):
    """In random graphs of rules that add to gradients by themselves and of rules that do not."""
    for _ in range(300):
        nodes = [(rng.choice([*RULES]), rng.random() < 0.7, rng.integers(0, i + 1, 2)) for i in range(10)]
        grads = []
        for in_place in (False, True):
            model = Module()
            leaf = model.leaf = Parameter(np.ones(2))
            model.parameters = ParameterVector(model, "float64", np)
            tensors, unused, oldest = [leaf], {0}, leaf * 2.0
            for number, (name, accumulates, inputs) in enumerate(nodes, 1):
                n_inputs, forward, backward = RULES[name]
                rule = Rule(str(name), forward, backward, accumulates=accumulates)
                tensors.append(apply(rule, *(tensors[i] for i in inputs[:n_inputs])))
                unused = (unused | {number}) - set(inputs[:n_inputs].tolist())
            loss = sum((tensors[i] for i in unused), oldest).sum()
            loss.backward(into=model.parameters.gradient_buffers(1)[0] if in_place else None)
            grads.append(leaf.grad)
        np.testing.assert_array_equal(*grads)


def test_a_scalar_that_is_used_three_times_has_the_sum_of_three_gradients():
    model = Module()
    model.leaf = Parameter(np.array(1.0))
    model.parameters = ParameterVector(model, "float64", np)
    y = model.leaf * 2
    (y * 3 + y * 4 + y * 5).backward(into=model.parameters.gradient_buffers(1)[0])
    assert model.leaf.grad == 24.0
