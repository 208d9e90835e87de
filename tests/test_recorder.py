"""Figures that stay on the device until they are read, and the loss scale of float16."""

import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from small_models import random_batch, small_model
from tiny_run import checkpoint_of, metrics_of, tiny_trainer

from minitransformer.checkpoints import load_checkpoint
from minitransformer.config import TrainingConfig
from minitransformer.distributed.communicator import Communicator
from minitransformer.errors import TrainingError
from minitransformer.optim import Adam, LossScale, loss_scale
from minitransformer.training import GradientAccumulator, StepResult, train_step, trainer
from minitransformer.training.recorder import MAX_PENDING, MetricsRecorder


class OnDevice:
    """A number on a GPU: reading it takes a wait, which is counted."""

    waits = 0

    def __init__(self, value: float):
        self.value = value

    def __float__(self) -> float:
        OnDevice.waits += 1
        return self.value


def scaled_step(model, adam: Adam, batch, scale: LossScale | None) -> StepResult:
    accumulator = GradientAccumulator(model.parameters, scale=scale)
    return train_step(model, adam, [batch], update=1, config=TrainingConfig(), accumulator=accumulator)


def result(loss, norm=1.0) -> StepResult:
    return StepResult(loss, loss, 10, 12, norm, 0.1)


def on_device(kind=OnDevice):
    """`train_step` whose figures stay on a device."""

    def step(*inputs, **named):
        done = train_step(*inputs, **named)
        return replace(done, **{name: kind(getattr(done, name)) for name in ("loss", "nll", "gradient_norm")})

    return step


def recorder(tmp_path) -> MetricsRecorder:
    return MetricsRecorder(tmp_path / "metrics.jsonl", False, 1000, lambda update: 1)


def test_host_results_are_read_at_once_and_device_results_together(tmp_path):
    reads = recorder(tmp_path)
    reads.begin_update()
    assert reads.add(1, result(2.5)) and reads.interval.loss == 2.5 * 12
    before = OnDevice.waits
    for number in range(MAX_PENDING - 2):
        reads.begin_update()
        assert not reads.add(2 + number, result(OnDevice(float(number)), OnDevice(1.0)))
    assert OnDevice.waits == before and reads.interval.updates == 1
    assert reads.add(MAX_PENDING, result(OnDevice(7.0), OnDevice(1.0)))
    assert reads.interval.updates == MAX_PENDING and reads.interval.seconds >= 0
    assert reads.interval.loss == 12 * (2.5 + sum(range(MAX_PENDING - 2)) + 7.0)


@pytest.mark.parametrize("bad", [{"loss": float("nan")}, {"gradient_norm": float("inf")}])
def test_an_update_that_diverges_is_named_even_if_it_is_read_later(bad, tmp_path):
    reads = recorder(tmp_path)
    bad = {name: OnDevice(value) for name, value in bad.items()}
    for number in range(5, 9):
        reads.begin_update()
        reads.add(number, replace(result(OnDevice(1.0)), **(bad if number == 6 else {})))
    with pytest.raises(TrainingError, match="at update 6; --detect-anomaly finds .*; the checkpoints before it"):
        reads.read(8)


def test_metrics_do_not_depend_on_when_the_figures_are_read(tmp_path, monkeypatch):
    options = {"updates": 11, "log_every": 4, "save_every": 3, "validate_every": 5}
    tiny_trainer(tmp_path / "one", **options).run()

    monkeypatch.setattr(trainer, "train_step", on_device())
    tiny_trainer(tmp_path / "two", **options).run()
    one, two = (metrics_of(tmp_path / run) for run in ("one", "two"))
    assert one == two and len(one) > 4
    for update in (3, 11):
        checkpoints = [load_checkpoint(checkpoint_of(tmp_path / run, update)) for run in ("one", "two")]
        meters = [each.progress["epoch_so_far"] | {"seconds": 0.0} for each in checkpoints]
        assert meters[0] == meters[1]


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


def test_a_scale_between_one_and_two_ends_after_one_halving():
    scale = LossScale(1.5, 0, True)
    assert not scale.adapt(float("inf")) and scale.value == 0.75
    with pytest.raises(TrainingError, match="finite in float16"):
        scale.adapt(float("inf"))


def test_the_first_scale_is_the_largest_power_of_two_in_float16():
    scale = LossScale.for_precision("float" + str(16))  # a string of its own, as a configuration has
    assert scale.value == 2.0 ** math.floor(math.log2(np.finfo(np.float16).max))


def test_the_scale_is_doubled_after_2000_updates_as_in_pytorch():
    scale = LossScale.for_precision("float16")
    values = {update: scale.adapt(1.0) and scale.value for update in range(1, 2001)}
    assert values[1] == values[1999] == values[2000] / 2


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_other_precisions_have_no_loss_scale_and_read_no_norm(precision):
    scale, before = LossScale.for_precision(precision), OnDevice.waits
    assert scale.adapt(OnDevice(float("nan"))) and OnDevice.waits == before
    assert scale.to_dict() == {"value": 1.0, "good_updates": 0, "is_needed": False}


def test_no_rank_counts_as_busy_while_it_waits_for_the_device(tmp_path, monkeypatch):
    """A device may wait for another rank in vain; while a rank counts as busy, that would go unnoticed."""
    busy, seen = [], []

    @contextmanager
    def noted(ranks):
        busy.append(True)
        yield
        busy.pop()

    class Watched(OnDevice):
        def __float__(self) -> float:
            seen.append(list(busy))
            return self.value

    monkeypatch.setattr(trainer, "train_step", on_device(Watched))
    monkeypatch.setattr(Communicator, "busy", noted)
    tiny_trainer(tmp_path, updates=5, log_every=4, save_every=3, validate_every=5).run()
    assert seen == [[]] * 15
