"""The tape: gradients through graphs, what is recorded and freed, and clear errors when something cannot be done."""

import gc
import re
import weakref

import numpy as np
import pytest

from minitransformer.autograd import Tensor, apply, check_gradient, functions, no_grad
from minitransformer.errors import AutogradError, ShapeError
from minitransformer.ops.rule import Rule


def test_two_results_that_share_a_gradient_array_stay_independent(rng):
    """The newer sum is walked first and hands the same array to both sides; one side then adds more to its own."""
    a, b = (Tensor(rng.standard_normal(5), requires_grad=True) for _ in range(2))
    left, right = a * 1, b * 1
    (left * 3 + (left + right)).backward(np.ones(5))  # an array that could be changed in place
    np.testing.assert_array_equal(a.grad, 4.0)
    np.testing.assert_array_equal(b.grad, 1.0)


def test_the_gradient_of_a_leaf_is_an_array_of_its_own():
    a, b, given = Tensor(np.ones(3), requires_grad=True), Tensor(np.ones(3), requires_grad=True), np.full(3, 2.0)
    (a + b).backward(given)  # the sum hands on the array that it is given
    a.backward(given)
    b.grad *= 5.0
    for array, expected in ((a.grad, 4.0), (b.grad, 10.0), (given, 2.0)):
        np.testing.assert_array_equal(array, expected)


def test_gradients_of_all_outputs_of_a_rule_are_added(rng):
    packed = Tensor(rng.standard_normal((2, 5, 14)), requires_grad=True)
    q, k, v = functions.split_heads(packed, n_heads=2, widths=(2, 2, 3))
    (q.sum() + (v * 3).sum()).backward()  # k is not used
    np.testing.assert_array_equal(packed.grad[0, 0], [1.0] * 4 + [0.0] * 4 + [3.0] * 6)


def test_a_graph_of_20000_ops_needs_no_recursion():
    x = Tensor(np.array(1.0), requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + x
    y.backward()
    assert x.grad == 20_001.0
    del y  # to free the chain must not recurse either


def test_a_graph_with_many_paths_is_walked_once():
    """2^60 paths lead from y to x; a walk along paths would never end."""
    x = Tensor(np.array(1.0), requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad == 2.0**60


def test_a_second_backward_is_refused_as_the_memory_was_freed():
    x = Tensor(np.ones(3), requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(AutogradError, match="already walked.*run the forward pass again"):
        y.backward()
    np.testing.assert_array_equal(x.grad, 2.0)


def test_backward_frees_what_forward_saved():
    kept = []

    def forward(x):
        kept.append(np.zeros(10))
        return x * 2, (kept[0],)

    double = Rule("double", forward, lambda grad_y, saved: (2 * grad_y,))
    y = apply(double, Tensor(np.ones(3), requires_grad=True))
    saved = weakref.ref(kept.pop())
    assert saved() is not None
    y.sum().backward()
    assert saved() is None


def test_backward_needs_a_gradient_unless_the_result_is_a_scalar():
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with pytest.raises(AutogradError, match=r"shape \(2, 3\)"):
        (x * 2).backward()
    (x * 2).sum().reshape(1, 1).backward()
    np.testing.assert_array_equal(x.grad, 2.0)
    (x * 2).backward(3.0)  # one number is that of all elements
    np.testing.assert_array_equal(x.grad, 2.0 + 6.0)


@pytest.mark.parametrize("shape", [(3, 2), (1, 6), (0,)], ids=str)
def test_the_gradient_given_to_backward_must_have_the_shape_of_the_result(shape):
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with pytest.raises(ShapeError, match=re.escape(f"must have shape (2, 3), got {shape}")):
        (x * 2).backward(np.ones(shape))


WRONG_RULES = {
    "saves None": (lambda x: (x, None), None, "forward must return .y, saved. with saved a tuple, got None; .*y, ()"),
    "saves an array": (lambda x: (x, x), None, r"with saved a tuple, got ndarray of shape \(2, 3\)"),
    "saves a scalar": (lambda x: (x, Tensor(np.array(1.0))), None, r"with saved a tuple, got Tensor of shape \(\)"),
    "returns y alone": (lambda x: x, None, r"must return a pair .y, saved., got ndarray of shape \(2, 3\)"),
    "returns a triple": (lambda x: (x, (), ()), None, "forward must return a pair .y, saved., got a tuple of 3"),
    "returns a tuple of one": (lambda x: (x,), None, "forward must return a pair .y, saved., got a tuple of 1"),
    "no tuple": (None, lambda grad_y, saved: grad_y, r"return a tuple .*, got ndarray of shape \(2, 3\); .* .grad_x,."),
    "no return": (None, lambda grad_y, saved: None, "backward must return a tuple .*, got None"),
    "no gradient": (None, lambda grad_y, saved: (), "backward must return one gradient per input, 1, got 0"),
    "too many": (None, lambda grad_y, saved: (grad_y, grad_y), "one gradient per input, 1, got 2"),
    "a transposed gradient": (lambda x: (x.T, ()), None, r"must have shape \(2, 3\), got ndarray of shape \(3, 2\)"),
    "None inside": (None, lambda grad_y, saved: (None,), r"gradient of input 0 must have shape \(2, 3\), got None"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_rule_of_the_wrong_form_is_refused_by_its_name(name):
    forward, backward, message = WRONG_RULES[name]
    rule = Rule("mine", forward or (lambda x: (x, ())), backward or (lambda grad_y, saved: (grad_y,)))
    x = np.ones((2, 3))
    with pytest.raises((AutogradError, ShapeError), match=f"^mine: .*{message}"):
        apply(rule, Tensor(x, requires_grad=True)).sum().backward()
    with pytest.raises((AutogradError, ShapeError), match=f"^mine: .*{message}"):
        check_gradient(rule, x)


def test_all_outputs_but_the_last_ones_of_a_rule_may_be_differentiable(rng):
    three = Rule("three", lambda x: ((x, 2 * x, x), ()), lambda a, b, _, saved: (a + 2 * b,), n_non_differentiable=1)
    x = Tensor(rng.standard_normal(4), requires_grad=True)
    outputs = apply(three, x)
    assert [y.requires_grad for y in outputs] == [True, True, False]
    (outputs[0] + outputs[1]).sum().backward()
    np.testing.assert_array_equal(x.grad, 3.0)


def test_each_use_of_a_leaf_brings_a_gradient_and_constants_get_none(rng):
    a, b = (Tensor(rng.standard_normal(3), requires_grad=True) for _ in range(2))
    found = []
    (a * b + a * Tensor(np.ones(3)) + a).sum().backward(accumulate=lambda leaf, grad: found.append(leaf))
    assert sorted(map(id, found)) == sorted(map(id, (a, a, a, b))) and a.grad is None


def test_no_grad_records_nothing():
    x = Tensor(np.ones(3), requires_grad=True)
    with no_grad():
        y = x * 2
    assert not y.requires_grad and y.node is None
    with pytest.raises(AutogradError), no_grad():
        with no_grad():
            pass
        assert not (x * 2).requires_grad, "an inner block must not end the outer one"
        y.sum().backward()
    assert (x * 2).requires_grad, "recording must resume after the block, also where an error ends it"


def test_a_result_that_is_made_a_constant_lets_no_gradient_through(rng):
    x, w = (Tensor(rng.standard_normal(3), requires_grad=True) for _ in range(2))
    constant = x * 2
    constant.requires_grad = False
    (constant * w + x).sum().backward()
    np.testing.assert_array_equal(x.grad, 1.0)
    np.testing.assert_array_equal(w.grad, constant.data)


def test_an_array_that_no_rule_saved_is_freed_while_the_loss_lives(rng):
    """The tape remembers where an input came from, not its array: addition needs neither summand for its backward."""
    x = Tensor(rng.standard_normal((3, 4)), requires_grad=True)
    summand = x * 2.0
    array = weakref.ref(summand.data)
    loss = (summand + x).sum()
    del summand
    gc.collect()
    assert array() is None
    loss.backward()
    np.testing.assert_array_equal(x.grad, 3.0)
