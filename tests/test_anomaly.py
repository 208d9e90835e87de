"""What ``detect_anomaly`` says of the values it finds; that it stops a training is in test_nonfinite.py."""

import re

import numpy as np
import pytest

from minitransformer.autograd import Tensor, detect_anomaly
from minitransformer.errors import AnomalyError


def test_an_anomaly_names_the_first_value_that_is_not_finite(rng):
    x = np.ones((4, 5))
    first, second = sorted(rng.choice(x.size, 2, replace=False).tolist())
    x.flat[first], x.flat[second] = np.inf, np.nan
    index = [first // 5, first % 5]
    with detect_anomaly(), pytest.raises(AnomalyError, match=re.escape(f"got inf at {index}")):
        Tensor(x) + 1.0


def test_an_anomaly_in_a_constant_is_named_without_a_parameter():
    weight = Tensor(np.ones(2), requires_grad=True)
    with detect_anomaly(), pytest.raises(AnomalyError, match="multiply: input 1 must be .*, got inf at .1.") as info:
        (weight + weight) * Tensor(np.array([1.0, np.inf]))
    assert info.value.leaf is None
