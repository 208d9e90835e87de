"""Extreme inputs to every rule, a few of them; `python -m tests.reliability.extremes` tries many."""

import numpy as np
import pytest

from minitransformer import kernels
from minitransformer.autograd import Tensor, functions
from minitransformer.errors import ShapeError
from minitransformer.ops.registry import RULES
from tests.reliability.extreme_inputs import SPECS
from tests.reliability.extremes import run


def test_every_rule_has_its_extreme_inputs():
    assert set(SPECS) == set(RULES)


def test_rules_hold_what_they_promise_for_extreme_inputs():
    tried, found = run(range(25 * len(RULES)), seed=2)
    assert found == [] and set(tried.values()) == {25}


@pytest.mark.parametrize("mode", ["simple", "fast"])
@pytest.mark.parametrize(
    ("name", "shapes", "options", "words"),
    [
        ("attention", [(2, 0), (3, 0), (3, 2)], {}, "attention: number of keys and d_k must be at least 1, got 0"),
        ("attention", [(2, 4), (0, 4), (0, 2)], {}, "attention: number of keys and d_k must be at least 1, got 0"),
        ("projection_loss", [(0, 4), (0, 4)], {"targets": np.zeros(0, int)}, "projection_loss: V must be at least 1"),
        ("cross_entropy", [(0, 0)], {"targets": np.zeros(0, int)}, "cross_entropy: V must be at least 1, got 0"),
        ("layer_norm", [(2, 0), (0,), (0,)], {}, "layer_norm: d_model must be at least 1, got 0"),
        ("residual_dropout_norm", [(2, 0), (2, 0), (0,), (0,)], {}, "residual_dropout_norm: d_model must be at least"),
    ],
)
def test_an_empty_axis_that_is_averaged_over_is_refused_by_name(name, shapes, options, words, mode):
    with kernels.mode(mode), pytest.raises(ShapeError, match=words):
        getattr(functions, name)(*(Tensor(np.ones(shape), requires_grad=True) for shape in shapes), **options)
