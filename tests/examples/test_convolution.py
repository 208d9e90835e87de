"""The convolutional encoder: how far it sees, that padding is nothing to it, and that a model of it trains."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import gradient, random_batch, small_config, small_model
from tiny_run import assert_same_state, tiny_config, tiny_corpus

from examples.paper.models.convolution import ConvolutionalTransformer
from minitransformer.autograd import no_grad
from minitransformer.config import PAD, Config
from minitransformer.errors import ConfigError
from minitransformer.nn import DropoutMasks
from minitransformer.planning import batch_flops
from minitransformer.training import Trainer

CONVOLUTION = {"kind": "convolution", "kernel_size": 3}


@pytest.mark.parametrize(("dilation", "reach"), [(1, 3), (2, 1 + 2 + 4), (3, 1 + 3 + 9)])
def test_three_layers_reach_as_far_as_their_dilations_add_up(dilation, reach, rng):
    """Path length n / k without dilation, log_k n with a factor of k      [Table 1]"""
    model = small_model(rng, **CONVOLUTION, dilation=dilation, n_layers=3)
    ids = rng.integers(3, 13, (1, 41))
    changed = ids.copy()
    changed[0, 20] = 3 + (ids[0, 20] - 2) % 10
    with no_grad():
        before, after = (model.encode(each)[0].data[0] for each in (ids, changed))
    reached = np.flatnonzero(np.abs(after - before).max(axis=1) > 1e-12)
    assert (reached.min(), reached.max()) == (20 - reach, 20 + reach)
    assert len(reached) == 2 * reach + 1


def test_padding_changes_no_output_of_the_encoder(rng):
    model, src = small_model(rng, **CONVOLUTION, dilation=2), random_batch(rng).src
    together = model.encode(src)[0].data
    for row, ids in enumerate(src):
        alone = model.encode(ids[ids != PAD][None])[0].data[0]
        np.testing.assert_allclose(together[row, : len(alone)], alone, rtol=1e-10, atol=1e-12)


def test_the_gradient_of_the_model_is_the_derivative_of_its_loss(rng):
    model, batch = small_model(rng, **CONVOLUTION, dilation=2, p_drop=0.2), random_batch(rng)
    slope, direction = gradient(model, batch, DropoutMasks(seed=5)), rng.standard_normal(len(model.parameters.data))
    weights, ends = model.parameters.data.copy(), []
    for step in (1e-6, -1e-6):
        model.parameters.data[:] = weights + step * direction
        ends.append(model.loss(batch, DropoutMasks(seed=5))[0].item())
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float(slope @ direction), rel=1e-6)


def test_a_run_that_was_cut_short_resumes_bit_for_bit(tmp_path):
    def config(name: str, updates: int):
        return tiny_config(tmp_path / name, model=CONVOLUTION | {"dilation": 2}, updates=updates, save_every=4)

    Trainer(config("whole", 8), tiny_corpus(), progress=False).run()
    for updates in (4, 8):
        Trainer(config("cut", updates), tiny_corpus(), progress=False).run()
    assert_same_state(tmp_path / "cut", tmp_path / "whole", 8)


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
        (
            {"kernel_size": 5},
            "config: .* the last with model.kernel_size: .*paper.run COMMAND knows .*convolution",
        ),
        (
            {"kind": "language_model", "encoder": "convolution"},
            "config: .* the last with model.encoder: .*paper.run",
        ),
    ],
)
def test_settings_that_make_no_convolution_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        Config.from_dict({"model": changes})
