"""``detect_anomaly``: the rule that gives NaN or infinity, forward or backward, and the nearest parameter."""

import re

import numpy as np
import pytest
from small_models import random_batch, small_model
from tiny_run import assert_same_state, tiny_trainer

from minitransformer.autograd import Tensor, detect_anomaly, functions
from minitransformer.errors import AnomalyError
from minitransformer.training.nonfinite import explain_anomaly


@pytest.mark.parametrize("kernel_mode", ["simple", "fast"])
def test_an_anomaly_names_the_rule_and_the_nearest_parameter(kernel_mode, rng):
    model, batch = small_model(rng, kernel_mode=kernel_mode), random_batch(rng)
    model.parameters["encoder.layers.1.self_attention.w_q.weight"].data[:] = 1e200  # finite; the scores overflow
    model.parameters["encoder.layers.1.self_attention.w_kv.weight"].data[:] = 1e200
    with np.errstate(all="ignore"), detect_anomaly(), pytest.raises(AnomalyError) as info:
        model.loss(batch)[0].backward()
    assert re.fullmatch(
        r"train: .*, got an anomaly at update 4: attention: forward must give finite values for finite inputs, got nan "
        r"at .* \(nearest parameter: encoder.layers.1.self_attention.w_q.weight\); .*",
        str(explain_anomaly(4, info.value, model.parameters)),
    )


def test_an_anomaly_of_backward_is_told_from_one_of_forward():
    x = Tensor(np.array([4.0, 0.0]), requires_grad=True)
    with detect_anomaly(), np.errstate(all="ignore"):
        root = (x**0.5).sum()
        with pytest.raises(AnomalyError, match=r"power: backward must give finite gradients, got inf at \[1\]") as info:
            root.backward()
        assert info.value.leaf is x
        with pytest.raises(AnomalyError, match=r"log: forward must give finite values for finite inputs, got -inf"):
            x.log()
        with pytest.raises(AnomalyError, match=r"exp: input 0 must be finite, got nan"):
            Tensor(np.array(np.nan), requires_grad=True).exp()
        with detect_anomaly(False):
            assert x.log().data[1] == -np.inf
        functions.softmax(x, mask=np.array([False, False]))


def test_detecting_anomalies_changes_no_bit(tmp_path):
    tiny_trainer(tmp_path / "plain", updates=4).run()
    with detect_anomaly():
        tiny_trainer(tmp_path / "detected", updates=4).run()
    assert_same_state(tmp_path / "plain", tmp_path / "detected", 4)


def test_an_anomaly_in_a_constant_is_named_without_a_parameter():
    weight = Tensor(np.ones(2), requires_grad=True)
    with pytest.raises(AnomalyError, match="multiply: input 1 must be .*, got inf at .1.") as info, detect_anomaly():
        (weight + weight) * Tensor(np.array([1.0, np.inf]))
    assert info.value.leaf is None
    weight * Tensor(np.array([1.0, np.inf]))  # after the block, which an error has ended, nothing is refused


def test_a_gradient_that_nobody_needs_may_overflow():
    x, tiny = Tensor(np.array(1e-280), requires_grad=True), Tensor(np.array(1e-300))
    with detect_anomaly(), np.errstate(over="ignore"):
        (x / tiny).backward()  # that of tiny is -1e320
    assert x.grad == 1 / tiny.data
