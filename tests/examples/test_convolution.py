"""The convolutional encoder: how far it sees, that padding is nothing to it, and that a model of it trains."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import check_derivative, random_batch, reached, small_config, small_model

from examples.paper.models.convolution import ConvolutionalTransformer
from minitransformer.config import PAD, Config
from minitransformer.errors import ConfigError
from minitransformer.planning import batch_flops

CONVOLUTION = {"kind": "convolution", "kernel_size": 3}


@pytest.mark.parametrize(("dilation", "reach"), [(1, 3), (2, 1 + 2 + 4), (3, 1 + 3 + 9)])
def test_three_layers_reach_as_far_as_their_dilations_add_up(dilation, reach, rng):
    """Path length n / k without dilation, log_k n with a factor of k      [Table 1]"""
    model = small_model(rng, **CONVOLUTION, dilation=dilation, n_layers=3)
    assert reached(model, rng, 41, 20) == [*range(20 - reach, 20 + reach + 1)]


def test_padding_changes_no_output_of_the_encoder(rng):
    model, src = small_model(rng, **CONVOLUTION, dilation=2), random_batch(rng).src
    together = model.encode(src)[0].data
    for row, ids in enumerate(src):
        alone = model.encode(ids[ids != PAD][None])[0].data[0]
        np.testing.assert_allclose(together[row, : len(alone)], alone, rtol=1e-10, atol=1e-12)


def test_the_gradient_of_the_model_is_the_derivative_of_its_loss(rng):
    check_derivative(small_model(rng, **CONVOLUTION, dilation=2, p_drop=0.2), random_batch(rng), rng)


def test_flops_of_a_convolution_are_six_for_each_weight_and_position():
    config = small_config(**CONVOLUTION | {"kernel_size": 5})
    assert ConvolutionalTransformer.parameter_shapes(config)["encoder.layers.0.weight"] == (5, 6, 6)
    cost = [batch_flops(replace(config, kernel_size=k), 1, 9, 4) for k in (3, 5)]
    assert cost[1] - cost[0] == 6 * config.n_layers * 2 * 6 * 6 * 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "convolution", "kernel_size": 4}, "config: model.kernel_size must be odd, got 4"),
        ({"kind": "convolution", "dilation": 0}, "config: model.dilation must be at least 1, got 0"),
        ({"kind": "language_model", "encoder": "convolution"}, "config: .* the last with model.encoder: .*paper.run"),
    ],
)
def test_settings_that_make_no_convolution_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        Config.from_dict({"model": changes})
