"""The loss scale of float16."""

import math

import numpy as np
import pytest
from small_models import random_batch, small_model
from tiny_run import tiny_trainer

from minitransformer.config import TrainingConfig
from minitransformer.errors import TrainingError
from minitransformer.optim import Adam, LossScale, loss_scale
from minitransformer.training import GradientAccumulator, StepResult, train_step


def scaled_step(model, adam: Adam, batch, scale: LossScale | None) -> StepResult:
    accumulator = GradientAccumulator(model.parameters, scale=scale)
    return train_step(model, adam, [batch], update=1, config=TrainingConfig(), accumulator=accumulator)


def test_a_loss_scale_changes_no_bit_of_an_update_without_overflow(rng):
    batch, vectors = random_batch(rng), []
    for scale in (None, LossScale(1024.0, 0, True)):
        model = small_model(np.random.default_rng(3))
        scaled_step(model, Adam(model.parameters), batch, scale)
        vectors.append(model.parameters.data)
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_an_update_that_overflows_is_left_out_and_halves_the_scale(rng):
    model, scale = small_model(rng), LossScale(2.0**1023, 7, True)
    before, adam = model.parameters.data.copy(), Adam(model.parameters)
    with np.errstate(all="ignore"):
        step = scaled_step(model, adam, random_batch(rng), scale)
    np.testing.assert_array_equal(model.parameters.data, before)
    assert (step.is_finite, adam.step_count) == (False, 0) and np.isfinite(step.loss)
    assert (scale.value, scale.good_updates) == (2.0**1022, 0)


def test_the_scale_grows_after_many_good_updates_and_ends_at_one(monkeypatch):
    monkeypatch.setattr(loss_scale, "GROWTH_AFTER", 3)
    scale = LossScale.for_precision("float16")
    first, values = scale.value, []
    for _ in range(6):
        assert scale.adapt(1.0)
        values.append(scale.value / first)
    assert values == [1, 1, 2, 2, 2, 4]
    for halvings in range(1, int(math.log2(scale.value)) + 1):
        assert not scale.adapt(float("inf")) and scale.value == 4 * first / 2**halvings
    assert scale.value == 1.0
    with pytest.raises(TrainingError, match="finite in float16, got an overflow at a loss scale of 1"):
        scale.adapt(float("nan"))


def test_the_scale_is_doubled_after_2000_updates_as_in_pytorch():
    scale = LossScale.for_precision("float16")
    values = {update: scale.adapt(1.0) and scale.value for update in range(1, 2001)}
    assert values[1] == values[1999] == values[2000] / 2


def test_a_run_resumes_with_the_scale_of_its_checkpoint_if_it_needs_one(tmp_path, monkeypatch):
    monkeypatch.setattr(loss_scale, "GROWTH_AFTER", 3)
    with monkeypatch.context() as in_float16:
        in_float16.setattr(LossScale, "for_precision", staticmethod(lambda precision: LossScale(1024.0, 0, True)))
        tiny_trainer(tmp_path, updates=4).run()
        resumed = tiny_trainer(tmp_path, updates=8)
    assert resumed.accumulator.scale == LossScale(2048.0, 1, True)
    resumed.folder.leave()
    assert tiny_trainer(tmp_path, updates=8).accumulator.scale == LossScale(1.0, 0, False)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_other_precisions_have_no_loss_scale(precision):
    assert LossScale.for_precision(precision) == LossScale(1.0, 0, False)
