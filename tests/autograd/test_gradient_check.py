"""``check_gradient`` as a user of the library meets it: what it accepts, and that it finds what is wrong."""

import numpy as np
import pytest

from minitransformer.autograd import Tensor, check_gradient, functions
from minitransformer.autograd.gradient_check import as_rule, directional_slopes, relative_error
from minitransformer.errors import AutogradError
from minitransformer.ops.layer_norm import layer_norm, layer_norm_backward, layer_norm_forward
from minitransformer.ops.registry import RULES
from minitransformer.ops.rule import Rule


def test_a_rule_a_pair_and_a_function_of_tensors_are_accepted(rng):
    inputs = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal(4)
    assert check_gradient(layer_norm, *inputs, eps=0.1) < 1e-6
    assert check_gradient((layer_norm_forward, layer_norm_backward), *inputs) < 1e-6
    assert check_gradient(functions.layer_norm, *inputs, eps=0.1) < 1e-6


def test_functions_may_have_several_outputs_and_ignore_an_input(rng):
    def two(a, b, unused):
        return (a * b).exp(), Tensor(np.ones(2)), a.sum()

    assert check_gradient(two, rng.standard_normal((2, 3)), rng.standard_normal(3), rng.standard_normal(5)) < 1e-6
    two_of_three = Rule("three", lambda x: ((x, 2 * x, x), ()), lambda a, b, _, saved: (a + 2 * b,), 1)
    assert check_gradient(two_of_three, rng.standard_normal(4)) < 1e-6
    targets = np.array([1, 2, 3])
    assert check_gradient(RULES["cross_entropy"], rng.standard_normal((3, 9)), targets=targets) < 1e-6


@pytest.mark.parametrize("factor", [0.999, np.nan, -1.0])
def test_a_wrong_gradient_is_named_by_rule_and_input(factor, rng):
    def wrong(grad_y, saved):
        grad_x, grad_gamma, grad_beta = layer_norm_backward(grad_y, saved)
        return grad_x, factor * grad_gamma, grad_beta

    with pytest.raises(AutogradError, match="^wrong: gradient of input 1 must have the slope .* central differences"):
        check_gradient((layer_norm_forward, wrong), *(rng.standard_normal(shape) for shape in ((3, 4), (4,), (4,))))


def test_a_function_that_breaks_the_tape_is_refused(rng):
    def leaves_the_tape(x):
        return Tensor(x.data * 2)

    with pytest.raises(AutogradError, match="leaves_the_tape must return a tensor that depends on its inputs"):
        check_gradient(leaves_the_tape, rng.standard_normal(3))
    with pytest.raises(AutogradError, match="<lambda> must return a tensor that depends on its inputs"):
        check_gradient(lambda x: 3.0, rng.standard_normal(3))
    for wrong in (3, (layer_norm_forward,), (layer_norm_forward, layer_norm_backward, None)):
        with pytest.raises(AutogradError, match="function must be a Rule, a pair .* got"):
            check_gradient(wrong, rng.standard_normal(3))


def test_the_error_may_be_as_large_as_the_tolerance_and_no_larger(rng):
    x = rng.standard_normal((3, 4))
    largest = check_gradient(RULES["softmax"], x)
    assert check_gradient(RULES["softmax"], x, tolerance=largest) == largest > 0.0
    with pytest.raises(AutogradError, match="gradient of input 0"):
        check_gradient(RULES["softmax"], x, tolerance=largest / 2)


def test_each_of_few_entries_is_checked_alone(rng):
    grad_y, x = rng.standard_normal(3), rng.standard_normal(3)
    ((_, *single),) = directional_slopes(as_rule(lambda x: x * grad_y), x)
    cotangent = np.random.default_rng(0).standard_normal(3)
    np.testing.assert_allclose(sorted(slope for _, slope in single), sorted(grad_y * cotangent))


def test_the_error_is_relative_but_for_slopes_near_zero():
    assert relative_error(2.0, 1.5) == relative_error(-2.0, -1.5) == 0.25
    assert relative_error(2.0, -2.0) == 2.0
    assert relative_error(1e-9, -1e-9) == pytest.approx(2e-6)


def test_inputs_cannot_be_changed_in_place(rng):
    def doubles(x):
        x *= 2.0
        return x, ()

    x = rng.standard_normal(3)
    with pytest.raises(ValueError, match="read-only"):
        check_gradient((doubles, lambda grad_y, saved: (2.0 * grad_y,)), x)
