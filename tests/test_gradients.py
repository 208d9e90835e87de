"""Every rule against central differences: random inputs, random cotangents, random directions, float64."""

import math

import numpy as np
import pytest
from cases import CASES, as_tuple, cotangents
from small_models import gradient, random_batch, small_model

from minitransformer.autograd import check_gradient
from minitransformer.nn import DropoutMasks
from minitransformer.ops import elementwise
from minitransformer.ops.registry import RULES, discover
from minitransformer.ops.rule import Rule

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def test_every_rule_has_a_case():
    assert {case.rule.name for case in CASES} == set(RULES)


def test_the_registry_calls_every_rule_by_its_own_name():
    assert all(rule.name == name for name, rule in RULES.items())
    assert {"attention", "getitem", "max", "projection_loss", "residual_dropout_norm"} <= set(RULES)


@pytest.mark.parametrize(
    ("variable", "name", "message"),
    [("swish", "silu", "name of its variable, swish, got silu"), ("softmax", "softmax", "a second one called softmax")],
)
def test_rules_whose_name_cannot_find_them_are_refused(variable, name, message, monkeypatch):
    monkeypatch.setattr(elementwise, variable, Rule(name, None, None), raising=False)
    with pytest.raises(ValueError, match=rf"ops/\w+\.py: .*{message}"):
        discover()


@every_case
def test_backward_is_the_derivative_of_forward(case):
    inputs, options = case.make()
    assert check_gradient(case.rule, *inputs, **options) < 1e-6


@every_case
def test_backward_returns_one_gradient_of_its_shape_per_input(case, rng):
    inputs, options = case.make()
    outputs, saved = case.rule.forward(*inputs, **options)
    grads_x = case.rule.backward(*cotangents(case.rule, as_tuple(outputs), rng), saved)
    assert isinstance(grads_x, tuple)
    assert [grad_x.shape for grad_x in grads_x] == [x.shape for x in inputs]


@every_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_and_gradients_have_the_dtype_of_the_inputs(case, dtype, rng):
    inputs, options = case.make(dtype)
    outputs, saved = case.rule.forward(*inputs, **options)
    grads_x = case.rule.backward(*cotangents(case.rule, as_tuple(outputs), rng), saved)
    assert [array.dtype for array in (*as_tuple(outputs), *grads_x)] == [dtype] * (len(as_tuple(outputs)) + len(inputs))


@every_case
def test_no_rule_writes_into_what_it_was_given(case, rng):
    inputs, options = case.make()
    given = [*inputs, *(x for x in options.values() if isinstance(x, np.ndarray))]
    before = [x.copy() for x in given]
    outputs, saved = case.rule.forward(*inputs, **options)
    grads_y = cotangents(case.rule, as_tuple(outputs), rng)
    given += [g for g in grads_y if g is not None]
    before += [g.copy() for g in grads_y if g is not None]
    case.rule.backward(*grads_y, saved)
    for x, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kernels", ["simple", "fast"])
def test_the_gradient_of_the_whole_model_is_the_derivative_of_its_loss(norm, kernels, rng):
    """With every kind of dropout on: the masks depend on the seed alone, so the loss is a smooth function."""
    drop = dict(p_drop=0.2, p_drop_attention=0.3, p_drop_ffn=0.25)
    model, batch = small_model(rng, norm=norm, kernel_mode=kernels, attention_bias=True, **drop), random_batch(rng)
    along = gradient(model, batch, DropoutMasks(seed=5))
    weights, step = model.parameters.data.copy(), 1e-6

    def loss_at(x) -> float:
        model.parameters.data[:] = x
        return model.loss(batch, DropoutMasks(seed=5))[0].item()

    for name, shape, offset in model.parameters.table:
        direction = np.zeros_like(weights)
        direction[offset : offset + math.prod(shape)] = rng.standard_normal(math.prod(shape))
        slope = (loss_at(weights + step * direction) - loss_at(weights - step * direction)) / (2 * step)
        assert along @ direction == pytest.approx(slope, rel=1e-6, abs=1e-7), name
