"""Tensor and functions: operators, rules by their names, dtypes, and what a Tensor may be made of."""

import operator
from inspect import signature

import numpy as np
import pytest
from cases import CASES, as_tuple, value

from minitransformer import kernels
from minitransformer.autograd import Tensor, apply, check_gradient, functions, no_grad
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
    "rows": lambda a, b: sum((number + 1) * row for number, row in enumerate(a)) * b,
    "broadcast": lambda a, b: a[0].broadcast_to((5, 4)).sum(axis=0) * b,
    "exp, log, relu": lambda a, b: a.exp() + b.log() + (a - b).relu(),
    "softmax": lambda a, b: functions.softmax(a) * functions.log_softmax(b),
    "concatenate": lambda a, b: functions.concatenate([a, b, a], axis=0) ** 2,
    "a value used by three ops": lambda a, b: (lambda c: c * c + c / b + c.sum())(a * b),
}


@pytest.mark.parametrize("compute", OPERATORS.values(), ids=OPERATORS)
def test_gradients_of_operators_are_finite_differences(compute, rng):
    assert check_gradient(compute, 0.5 + rng.random((3, 4)), 0.5 + rng.random((3, 4))) < 1e-6


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_rule_is_a_function_by_its_name(case):
    inputs, options = case.make()
    tensors, function = [Tensor(x) for x in inputs], getattr(functions, case.rule.name)
    with kernels.mode("simple"):
        y = function(tensors, **options) if case.rule.name == "concatenate" else function(*tensors, **options)
    for found, expected in zip(as_tuple(y), as_tuple(value(case.rule, *inputs, **options)), strict=True):
        np.testing.assert_array_equal(found.data, expected)


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


def test_an_array_of_any_library_is_taken_as_it_is():
    class OtherArray(np.ndarray):
        pass

    array = np.ones(3).view(OtherArray)
    assert Tensor(array).data is array
    assert isinstance(Tensor(memoryview(array)).data, np.ndarray)


@pytest.mark.parametrize("dtype", [bool, int, complex])
def test_only_floating_point_data_can_require_a_gradient(dtype):
    with pytest.raises(AutogradError, match="floating-point"):
        Tensor(np.ones(3, dtype), requires_grad=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scalars_do_not_change_the_dtype(dtype):
    x = Tensor(np.ones(3, dtype), requires_grad=True)
    y = ((2.5 * x + 1) / 3 - x**2 + x ** np.float64(0.5)) * np.float64(0.5)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (dtype, dtype)


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32)], ids=str)
def test_a_gradient_has_the_dtype_of_its_leaf_beside_one_of_another_dtype(dtypes):
    a, b = (Tensor(np.ones(3, dtype), requires_grad=True) for dtype in dtypes)
    for _ in range(2):
        (a * b).sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == dtypes


def test_a_rule_is_given_a_gradient_of_the_dtype_of_its_output():
    """A kernel on a GPU would read one of another dtype as if it had this one."""
    given = []
    rule = Rule("probe", lambda x: (x.copy(), ()), lambda grad_y, saved: (given.append(grad_y.dtype) or grad_y,))
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    (apply(rule, x) * Tensor(np.ones(3))).sum().backward()
    assert given == [np.float32]


@pytest.mark.parametrize("operate", [operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul])
def test_an_array_may_stand_on_the_left_of_every_operator(operate, rng):
    a, x = rng.standard_normal((3, 3)), Tensor(rng.standard_normal((3, 3)) + 4.0)
    np.testing.assert_allclose(operate(a, x).data, operate(a, x.data))


def test_the_power_zero_has_gradient_zero_even_at_zero():
    x = Tensor(np.array([0.0, 2.0]), requires_grad=True)
    (x**0).sum().backward()
    np.testing.assert_array_equal(x.grad, 0.0)


def test_a_tensor_is_iterated_over_by_rows_as_an_array_is(rng):
    x = rng.standard_normal((3, 2))
    np.testing.assert_array_equal([row.data for row in Tensor(x)], x)
    assert list(Tensor(np.ones((0, 2)))) == []
    with pytest.raises(TypeError, match="unsized"):
        iter(Tensor(1.0))


def test_the_rule_called_sum_does_not_hide_pythons_sum():
    assert functions.sum(Tensor(np.ones(6))).item() == 6.0
    assert functions.split_heads(Tensor(np.ones((1, 2, 6))), n_heads=3, widths=(2,)).shape == (1, 3, 2, 2)


def test_a_tensor_shows_its_values_and_the_rule_that_made_it():
    x = Tensor(np.array([1.5, 2.0]), requires_grad=True)
    assert repr(x) == "Tensor([1.5 2. ], requires_grad=True)"
    assert repr(x * 2) == "Tensor([3. 4.], requires_grad=True, made by multiply)"


def test_two_axes_are_swapped_as_in_pytorch_and_all_are_ordered_as_in_numpy(rng):
    x = rng.standard_normal((2, 3, 4))
    for axes in ((0, 1), (1, 0), (-1, -2), (0, 2)):
        np.testing.assert_array_equal(Tensor(x).transpose(*axes).data, x.swapaxes(*axes))
        assert check_gradient(lambda x, axes=axes: x.transpose(*axes), x) < 1e-6
    np.testing.assert_array_equal(Tensor(x[0]).transpose(0, 1).data, x[0].T)
    np.testing.assert_array_equal(Tensor(x).transpose(2, 0, 1).data, x.transpose(2, 0, 1))
    np.testing.assert_array_equal(Tensor(x).T.data, x.T)


@pytest.mark.parametrize("axes", [(0, 3), (0,), (0, 1, 1)])
def test_axes_that_are_none_are_refused(axes):
    with pytest.raises(ShapeError, match="transpose: "):
        Tensor(np.ones((2, 3, 4))).transpose(*axes)


def test_a_tensor_converts_to_numbers(rng):
    x = rng.standard_normal((2, 3))
    tensor = Tensor(x, requires_grad=True)
    for array in (tensor.numpy(), np.asarray(tensor), np.stack(list(Tensor(x)))):
        np.testing.assert_array_equal(array, x)
    assert np.asarray(tensor, np.float32).dtype == np.float32 and np.array(tensor) is not tensor.data
    loss = tensor.sum()
    assert float(loss) == loss.item() == x.sum()
    assert f"{loss:.3f}" == f"{x.sum():.3f}" and f"{tensor}" == str(tensor)
    assert not Tensor(np.zeros(1)) and Tensor(np.array(-0.5)), "as NumPy's: whether it is 0"
    for of_one in (bool, "{:.3f}".format):
        with pytest.raises(ValueError, match="size 1"):
            of_one(tensor)


def test_numpy_functions_which_would_lose_the_gradient_are_refused(rng):
    tensor = Tensor(rng.standard_normal(3), requires_grad=True)
    for function in (np.exp, lambda x: np.add(np.ones(3), x), lambda x: np.ones(3).__iadd__(x)):
        with pytest.raises(TypeError):
            raise TypeError if (result := function(tensor)) is NotImplemented else AssertionError(result)
    x, mask = np.ones(3), np.array([True, False, True])
    for name, call in {
        "where": lambda t: np.where(mask, t, x),
        "dot": lambda t: np.dot(t, x),
        "einsum": lambda t: np.einsum("i,i->", x, t),
        "stack": lambda t: np.stack([x, t]),
        "sum": np.sum,
        "linalg.norm": np.linalg.norm,
        "concatenate": lambda t: np.concatenate((Tensor(x), t)),
    }.items():
        with pytest.raises(
            AutogradError, match=rf"^numpy\.{name}: must be given arrays, got a Tensor, .* tensor\.numpy\(\)"
        ):
            call(tensor)
        with no_grad():
            np.testing.assert_array_equal(call(tensor), call(tensor.data))
        np.testing.assert_array_equal(call(Tensor(tensor.data)), call(tensor.data))


@pytest.mark.parametrize("name", sorted(functions.RULES))
def test_every_function_describes_itself(name):
    function, rule = getattr(functions, name), functions.RULES[name]
    assert name in dir(functions) and function.__name__ == name
    assert function.__doc__ == rule.forward.__doc__ and rule.forward.__doc__
    if name != "concatenate":  # it takes a list
        assert list(signature(function).parameters) == list(signature(rule.forward).parameters)
    assert signature(function).return_annotation is Tensor
