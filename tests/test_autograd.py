"""The tape and Tensor: gradients through graphs of operators, and clear errors when something cannot be done."""

import gc
import operator
import re
import weakref

import numpy as np
import pytest
from cases import CASES, as_tuple, value

from minitransformer import kernels
from minitransformer.autograd import Tensor, apply, check_gradient, count_leaf_uses, functions, no_grad
from minitransformer.errors import AutogradError, ShapeError
from minitransformer.ops.rule import Rule

OPERATORS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / b,
    "power": lambda a, b: a**3 + b**0.5,
    "negation": lambda a, b: -a + b,
    "numbers on the right": lambda a, b: (a + 2) * 3 - 4 + b / 5,
    "numbers on the left": lambda a, b: 2 + a - (1 - b) + 3 * a + 1 / b,
    "arrays on the left": lambda a, b: np.arange(4.0) * a - np.ones((3, 4)) / b,
    "matrix product": lambda a, b: a @ b.transpose(),
    "slices": lambda a, b: a[1:, ::2] * b[:2, 1:3],
    "chosen rows": lambda a, b: a[np.array([0, 2, 2])] * b,
    "sums and means": lambda a, b: a.sum(axis=1) * b.mean(axis=-1) + a.mean() * b.sum(axis=0, keepdims=True).sum(),
    "maximum": lambda a, b: a.max(axis=0) * b + b.max(),
    "reshape": lambda a, b: a.reshape(4, 3) @ b.reshape((3, 4)),
    "transpose": lambda a, b: a.reshape(3, 2, 2).transpose(2, 0, 1).reshape(2, 6) @ b.reshape(6, 2),
    "broadcast": lambda a, b: a[0].broadcast_to((5, 4)).sum(axis=0) * b,
    "exp, log, relu": lambda a, b: a.exp() + b.log() + (a - b).relu(),
    "softmax": lambda a, b: functions.softmax(a) * functions.log_softmax(b),
    "concatenate": lambda a, b: functions.concatenate([a, b, a], axis=0) ** 2,
    "a value used by three ops": lambda a, b: (lambda c: c * c + c / b + c.sum())(a * b),
}


@pytest.mark.parametrize("compute", OPERATORS.values(), ids=OPERATORS)
def test_gradients_of_operators_are_finite_differences(compute, rng):
    assert check_gradient(compute, 0.5 + rng.random((3, 4)), 0.5 + rng.random((3, 4))) < 1e-6


@pytest.mark.parametrize("shapes", [((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (3, 4)), ((3, 1), (1, 4))], ids=str)
def test_an_input_that_was_broadcast_gets_the_sum_of_its_gradients(shapes, rng):
    a, b = (Tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes)
    y = a * b
    grad_y = rng.standard_normal(y.shape)
    y.backward(grad_y)
    assert (a.grad.shape, b.grad.shape) == shapes
    for leaf, other in ((a, b), (b, a)):
        expected = np.zeros(leaf.shape)
        repeated = np.broadcast_to(np.arange(leaf.data.size).reshape(leaf.shape), y.shape)
        products = (grad_y * np.broadcast_to(other.data, y.shape)).ravel()
        np.add.at(expected.reshape(-1), repeated.ravel(), products)
        np.testing.assert_allclose(leaf.grad, expected, rtol=1e-12)


def test_two_results_that_share_a_gradient_array_stay_independent(rng):
    """The sum hands the same array to both sides; one side then adds more to its own."""
    a, b = (Tensor(rng.standard_normal(5), requires_grad=True) for _ in range(2))
    left, right = a * 1, b * 1
    (left + right + left * 3).sum().backward()
    np.testing.assert_array_equal(a.grad, 4.0)
    np.testing.assert_array_equal(b.grad, 1.0)


def test_a_second_result_adds_to_the_gradient_of_a_leaf():
    x = Tensor(np.ones(3), requires_grad=True)
    (x * 2).sum().backward()
    (x * 5).sum().backward()
    np.testing.assert_array_equal(x.grad, 7.0)


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


@pytest.mark.parametrize("shape", [(3, 2), (1, 6), (0,)], ids=str)
def test_the_gradient_given_to_backward_must_have_the_shape_of_the_result(shape):
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    with pytest.raises(ShapeError, match=re.escape(f"must have shape (2, 3), got {shape}")):
        (x * 2).backward(np.ones(shape))


def test_an_empty_result_needs_a_gradient_too():
    x = Tensor(np.ones((0, 3)), requires_grad=True)
    with pytest.raises(AutogradError, match=r"shape \(0, 3\)"):
        (x * 2).backward()


WRONG_RULES = {
    "saves None": (lambda x: (x, None), None, "forward must return .y, saved. with saved a tuple, got None; .*y, ()"),
    "saves an array": (lambda x: (x, x), None, r"with saved a tuple, got \(2, 3\)"),
    "returns y alone": (lambda x: x, None, r"forward must return a pair .y, saved., got \(2, 3\)"),
    "returns a triple": (lambda x: (x, (), ()), None, "forward must return a pair .y, saved., got a tuple of 3"),
    "returns a tuple of one": (lambda x: (x,), None, "forward must return a pair .y, saved., got a tuple of 1"),
    "no tuple": (None, lambda grad_y, saved: grad_y, r"backward must return a tuple .*, got \(2, 3\); .* .grad_x,."),
    "no return": (None, lambda grad_y, saved: None, "backward must return a tuple .*, got None"),
    "no gradient": (None, lambda grad_y, saved: (), "backward must return one gradient per input, 1, got 0"),
    "too many": (None, lambda grad_y, saved: (grad_y, grad_y), "one gradient per input, 1, got 2"),
    "a transposed gradient": (lambda x: (x.T, ()), None, r"gradient of input 0 must have shape \(2, 3\), got \(3, 2\)"),
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


@pytest.mark.parametrize("case", [each for each in CASES if "pad_id" not in each.options], ids=str)
def test_every_rule_is_a_function_by_its_name(case):
    inputs, options = case.make()
    tensors, function = [Tensor(x) for x in inputs], getattr(functions, case.rule.name)
    with kernels.mode("simple"):
        y = function(tensors, **options) if case.rule.name == "concatenate" else function(*tensors, **options)
    for found, expected in zip(as_tuple(y), as_tuple(value(case.rule, *inputs, **options)), strict=True):
        np.testing.assert_array_equal(found.data, expected)


def test_the_rule_called_sum_does_not_hide_pythons_sum():
    assert functions.sum(Tensor(np.ones(6))).item() == 6.0
    assert functions.split_heads(Tensor(np.ones((1, 2, 6))), n_heads=3, widths=(2,)).shape == (1, 3, 2, 2)


def test_what_is_not_a_rule_is_not_a_function(rng):
    x = rng.standard_normal(3)
    with pytest.raises(AttributeError, match="there is no rule called 'tan' in ops/"):
        functions.tan(Tensor(x))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_a_reduction_removes_its_axes_unless_they_are_kept(reduce, rng):
    x = Tensor(rng.standard_normal((2, 3)))
    for axis, removed, kept in ((None, (), (1, 1)), (0, (3,), (1, 3)), (-1, (2,), (2, 1))):
        assert getattr(x, reduce)(axis).shape == removed
        assert getattr(x, reduce)(axis, keepdims=True).shape == kept


def test_concatenate_joins_along_the_last_axis_by_default(rng):
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 5))
    np.testing.assert_array_equal(functions.concatenate([Tensor(a), Tensor(b)]).data, np.concatenate([a, b], axis=2))


def test_all_outputs_but_the_last_ones_of_a_rule_may_be_differentiable(rng):
    three = Rule("three", lambda x: ((x, 2 * x, x), ()), lambda a, b, _, saved: (a + 2 * b,), n_non_differentiable=1)
    x = Tensor(rng.standard_normal(4), requires_grad=True)
    outputs = apply(three, x)
    assert [y.requires_grad for y in outputs] == [True, True, False]
    (outputs[0] + outputs[1]).sum().backward()
    np.testing.assert_array_equal(x.grad, 3.0)


def test_an_array_of_any_library_is_taken_as_it_is():
    class OtherArray(np.ndarray):
        pass

    array = np.ones(3).view(OtherArray)
    assert Tensor(array).data is array
    assert isinstance(Tensor(memoryview(array)).data, np.ndarray)


def test_an_optional_input_may_be_none(rng):
    x, weight = Tensor(rng.standard_normal((3, 4))), Tensor(rng.standard_normal((4, 5)))
    np.testing.assert_array_equal(functions.linear(x, weight, None).data, functions.linear(x, weight).data)


def test_each_use_of_a_leaf_is_counted_and_constants_are_not(rng):
    a, b = (Tensor(rng.standard_normal(3), requires_grad=True) for _ in range(2))
    y = a * b + a * Tensor(np.ones(3)) + a
    assert count_leaf_uses(y) == {id(a): 3, id(b): 1}


def test_a_tensor_shows_its_values_and_the_rule_that_made_it():
    x = Tensor(np.array([1.5, 2.0]), requires_grad=True)
    assert repr(x) == "Tensor([1.5 2. ], requires_grad=True)"
    assert repr(x * 2) == "Tensor([3. 4.], requires_grad=True, made by multiply)"


def test_no_grad_records_nothing():
    x = Tensor(np.ones(3), requires_grad=True)
    with no_grad():
        y = x * 2
    assert not y.requires_grad and y.node is None
    with pytest.raises(AutogradError):
        y.sum().backward()
    assert (x * 2).requires_grad, "recording must resume after the block"


def test_recording_resumes_after_an_error_inside_no_grad():
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert (Tensor(np.ones(3), requires_grad=True) * 2).requires_grad


def test_nothing_is_recorded_where_no_input_requires_a_gradient():
    y = Tensor(np.ones(3)) * Tensor(np.ones(3))
    assert not y.requires_grad and y.node is None


def test_only_leaves_that_require_a_gradient_get_one():
    x, constant = Tensor(np.ones(3), requires_grad=True), Tensor(np.full(3, 4.0))
    middle = x * constant
    middle.sum().backward()
    np.testing.assert_array_equal(x.grad, 4.0)
    assert constant.grad is None and middle.grad is None


def test_a_non_differentiable_output_cannot_be_differentiated(rng):
    logits = Tensor(rng.standard_normal((3, 9)), requires_grad=True)
    loss, nll = functions.cross_entropy(logits, targets=np.array([1, 2, 3]), label_smoothing=0.1)
    assert loss.requires_grad and not nll.requires_grad
    with pytest.raises(AutogradError):
        nll.backward()


def test_a_non_differentiable_output_is_a_constant_in_what_is_made_of_it(rng):
    x, logits = (Tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((3,), (3, 9)))
    doubled = x * 2
    _, nll = functions.cross_entropy(logits, targets=np.array([1, 2, 3]))
    (doubled * nll).sum().backward()
    np.testing.assert_array_equal(x.grad, 2 * nll.data)
    assert logits.grad is None


@pytest.mark.parametrize("dtype", [bool, int, complex])
def test_only_floating_point_data_can_require_a_gradient(dtype):
    with pytest.raises(AutogradError, match="floating-point"):
        Tensor(np.ones(3, dtype), requires_grad=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scalars_do_not_change_the_dtype(dtype):
    x = Tensor(np.ones(3, dtype), requires_grad=True)
    y = ((2.5 * x + 1) / 3 - x**2) * np.float64(0.5)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (dtype, dtype)


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


@pytest.mark.parametrize("operate", [operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul])
def test_an_array_may_stand_on_the_left_of_every_operator(operate, rng):
    a, x = rng.standard_normal((3, 3)), Tensor(rng.standard_normal((3, 3)) + 4.0)
    np.testing.assert_allclose(operate(a, x).data, operate(a, x.data))


def test_the_power_zero_has_gradient_zero_even_at_zero():
    x = Tensor(np.array([0.0, 2.0]), requires_grad=True)
    (x**0).sum().backward()
    np.testing.assert_array_equal(x.grad, 0.0)
