"""Every rule against central differences: random inputs, random cotangents, random directions, float64."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from cases import CASES, outputs_and_gradients
from small_models import check_derivative, random_batch, small_model

from minitransformer.autograd import check_gradient
from minitransformer.ops import elementwise
from minitransformer.ops.registry import RULES, discover
from minitransformer.ops.rule import Rule

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def test_every_rule_has_a_case():
    assert {case.rule.name for case in CASES} == set(RULES)


@pytest.mark.parametrize(
    ("variable", "name", "message"),
    [
        ("swish", "silu", "name of its variable, swish, got silu"),
        ("gelu", "tanh", "name of its variable, gelu, got tanh"),
        ("softmax", "softmax", "a second one called softmax"),
    ],
)
def test_a_rule_with_a_wrong_or_a_second_name_is_refused(variable, name, message, monkeypatch):
    monkeypatch.setattr(elementwise, variable, Rule(name, None, None), raising=False)
    with pytest.raises(ValueError, match=rf"ops/\w+\.py: .*{message}"):
        discover()


def test_a_rule_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        RULES["softmax"].backward = RULES["log_softmax"].backward


@every_case
def test_backward_is_the_derivative_of_forward(case):
    """Inputs and cotangents are read-only in check_gradient, which also checks the form of the gradients."""
    inputs, options = case.make()
    for option in options.values():
        if isinstance(option, np.ndarray):
            option.flags.writeable = False
    assert check_gradient(case.rule, *inputs, **options) < 1e-6


@every_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_and_gradients_have_the_dtype_of_the_inputs(case, dtype, rng):
    results, _ = outputs_and_gradients(case.rule, *case.make(dtype), rng)
    assert {array.dtype for array in results} == {np.dtype(dtype)}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kernels", ["simple", "fast"])
def test_the_gradient_of_the_whole_model_is_the_derivative_of_its_loss(norm, kernels, rng):
    drop = dict(p_drop=0.2, p_drop_attention=0.3, p_drop_ffn=0.25)
    model = small_model(rng, norm=norm, kernel_mode=kernels, attention_bias=True, **drop)
    check_derivative(model, random_batch(rng), rng)
