"""NaN and infinity in an update: found in that update, located, and the parameters stay as they were."""

import re

import numpy as np
import pytest
from rank_jobs import check_error, launched
from small_models import random_batch, small_model
from tiny_run import assert_same_state, checkpoint_of, metrics_of, tiny_text, tiny_trainer, write_config

from minitransformer.checkpoints import load_checkpoint
from minitransformer.cli.main import main
from minitransformer.config import TrainingConfig
from minitransformer.errors import CheckpointError, TrainingError
from minitransformer.optim import Adam, LossScale
from minitransformer.training import GradientAccumulator, nonfinite, train_step, trainer
from minitransformer.training.nonfinite import MAX_SKIPPED, NonfiniteUpdates

UNTIED = {"tie_embeddings": False}
PLACES = {  # parameter: (index, value)
    "encoder.layers.0.feed_forward.w1": ((0, 0), np.nan),
    "decoder.layers.0.cross_attention.w_kv.weight": ((3, 2), -np.inf),
    "decoder.layers.0.feed_forward_residual.norm.gamma": ((0,), np.inf),
    "projection": ((5, 1), np.nan),
}


def damage(monkeypatch, updates, name: str, index, value: float) -> None:
    """In these updates alone a parameter holds ``value``: as if memory had failed for a moment."""

    undamaged, skip = [], NonfiniteUpdates.skip_or_raise

    def step(model, *inputs, update, **options):
        data = model.parameters[name].data
        if update in updates:
            undamaged.append((data, data.copy()))
            data[index] = value
        return train_step(model, *inputs, update=update, **options)

    def skip_and_restore(*arguments):
        try:
            return skip(*arguments)
        finally:
            data, values = undamaged.pop()
            data[...] = values

    monkeypatch.setattr(trainer, "train_step", step)
    monkeypatch.setattr(NonfiniteUpdates, "skip_or_raise", skip_and_restore)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PLACES)
def test_nan_in_any_parameter_is_named_in_the_update_where_it_is_met(name, threads, tmp_path, monkeypatch):
    index, value = PLACES[name]
    damage(monkeypatch, [6], name, index, value)
    found = re.escape(f" at update 6: parameter {name} is {value} at {list(index)}; --detect-anomaly finds ")
    with pytest.raises(TrainingError, match=found):
        tiny_trainer(tmp_path, updates=10, model=UNTIED, threads=threads).run()
    (only,) = (tmp_path / "checkpoints").iterdir()
    assert only == checkpoint_of(tmp_path, 4) and np.isfinite(load_checkpoint(only).parameters).all()


def test_what_was_learned_before_can_be_kept_with_other_settings_as_the_messages_say(tmp_path, monkeypatch):
    """A fault: they named another folder alone, where weeks of training began anew."""
    run, remedy = tmp_path / "run", "another training.directory, keeping the parameters with training.init_from$"
    damage(monkeypatch, [6], "embedding", 7, np.nan)
    with pytest.raises(TrainingError, match=remedy):
        tiny_trainer(run, updates=10).run()
    with pytest.raises(CheckpointError, match=remedy):
        tiny_trainer(run, updates=10, clip_norm=1.0)
    other = tiny_trainer(tmp_path / "other", clip_norm=1.0, init_from=str(run))
    np.testing.assert_array_equal(other.model.parameters.data, load_checkpoint(checkpoint_of(run, 4)).parameters)


def test_a_gradient_is_named_where_all_parameters_are_finite(tmp_path, monkeypatch):
    damage(monkeypatch, [6], "encoder.layers.0.self_attention.w_q.weight", ..., 1e308)  # products overflow
    with pytest.raises(TrainingError, match="at update 6: gradient of .* is nan at .*; --detect-anomaly finds"):
        tiny_trainer(tmp_path, updates=10, model={"dtype": "float64"}).run()


def test_an_update_that_is_not_finite_leaves_parameters_and_adam_as_they_were(rng):
    for bad in (np.nan, np.inf, -np.inf):
        model = small_model(rng)
        adam = Adam(model.parameters)
        model.parameters["decoder.layers.1.feed_forward.b2"].data[1] = bad
        before = model.parameters.data.copy()
        for accumulator in (None, GradientAccumulator(model.parameters)):
            with np.errstate(all="ignore"):
                result = train_step(
                    model, adam, [random_batch(rng)], update=1, config=TrainingConfig(), accumulator=accumulator
                )
            assert not result.is_finite and adam.step_count == 0
            np.testing.assert_array_equal(model.parameters.data, before)
            np.testing.assert_array_equal(adam.m, 0.0)


def test_loss_and_gradient_must_both_be_finite(rng):
    accumulator = GradientAccumulator(small_model(rng).parameters)
    values = (1.0, np.nan, np.inf, -np.inf)
    finite = [(loss, norm) for loss in values for norm in values if accumulator.is_finite(loss, norm)]
    assert finite == [(1.0, 1.0)]


def test_a_skipped_update_is_recorded_and_all_others_are_made(tmp_path, monkeypatch):
    damage(monkeypatch, [5, 6, 9], "embedding", 7, np.nan)
    monkeypatch.setattr(nonfinite, "MAX_SKIPPED", 3)  # in a row, as these are not
    tiny_trainer(tmp_path, updates=12, log_every=1, skip_nonfinite=True).run()
    lines = metrics_of(tmp_path)
    skipped = [line for line in lines if line["kind"] == "skipped"]
    assert [line["update"] for line in skipped] == [5, 6, 9]
    assert all(line["reason"] == "parameter embedding is nan at [7, 0]" for line in skipped)
    trained = [line for line in lines if line["kind"] == "train"]
    assert [line["update"] for line in trained] == [1, 2, 3, 4, 7, 8, 10, 11, 12]
    assert np.isfinite([line["loss"] for line in trained]).all()
    assert load_checkpoint(checkpoint_of(tmp_path, 12)).step_count == 9


def test_a_run_that_skips_resumes_bit_for_bit(tmp_path, monkeypatch):
    damage(monkeypatch, [5, 6, 9], "embedding", 7, np.nan)
    options = {"save_every": 3, "log_every": 4, "skip_nonfinite": True}
    tiny_trainer(tmp_path / "whole", updates=12, **options).run()
    for updates in (6, 9, 12):
        tiny_trainer(tmp_path / "parts", updates=updates, **options).run()
    assert_same_state(tmp_path / "whole", tmp_path / "parts", 12)
    assert [line for line in metrics_of(tmp_path / "parts") if line["kind"] != "valid"] == [
        line for line in metrics_of(tmp_path / "whole") if line["kind"] != "valid"
    ]


def test_a_run_stops_if_too_many_updates_in_a_row_would_be_skipped(tmp_path, monkeypatch):
    damage(monkeypatch, range(5, 100), "projection", 3, np.inf)
    with pytest.raises(TrainingError, match=f"at update {4 + MAX_SKIPPED}: .*; {MAX_SKIPPED} updates in a row"):
        tiny_trainer(tmp_path, updates=30, model=UNTIED, skip_nonfinite=True).run()


def test_a_sum_that_overflows_is_told_from_a_gradient_that_does(tmp_path, monkeypatch):
    clip = trainer.train_step.__globals__["clip_gradient_norm"]
    monkeypatch.setitem(trainer.train_step.__globals__, "clip_gradient_norm", lambda *given: clip(*given) + np.inf)
    with pytest.raises(TrainingError, match="got .* and inf at update 1: every gradient is finite; the sum of"):
        tiny_trainer(tmp_path, updates=2).run()


def test_an_overflow_in_float16_is_left_to_the_loss_scale(rng):
    model = small_model(rng, dtype="float32")
    adam = Adam(model.parameters)
    accumulator = GradientAccumulator(model.parameters, scale=LossScale(2.0**200, 0, True))
    options = {"update": 1, "config": TrainingConfig(), "accumulator": accumulator}
    with np.errstate(all="ignore"):
        result = train_step(model, adam, [random_batch(rng)], **options)
        assert not result.is_finite and accumulator.found_inf(result.loss)
        model.parameters.data[:] = np.nan
        result = train_step(model, adam, [random_batch(rng)], **options)
    assert not (result.is_finite or accumulator.found_inf(result.loss))
    assert accumulator.scale.value == 2.0**199


def test_train_detect_anomaly_ends_with_one_line_that_names_the_rule(tmp_path, monkeypatch, capsys):
    model, training = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_layers": 1}, {"directory": "run", "updates": 5}
    write_config(tmp_path / "c.toml", model=model, data=tiny_text(tmp_path), training=training)
    monkeypatch.chdir(tmp_path)
    damage(monkeypatch, [3], "encoder.layers.0.feed_forward.w2", (0, 1), np.inf)
    assert main(["train", "c.toml", "--detect-anomaly", "--device", "cpu"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.match(
        r"minitransformer train: every rule must give finite values, got an anomaly at update 3: "
        r"feed_forward: input 3 must be finite, got inf at \[0, 1\] "
        r"\(nearest parameter: encoder.layers.0.feed_forward.w2",
        line,
    ), line


# Ranks


@pytest.mark.mpi
def test_all_ranks_stop_with_one_line_that_names_the_gradient(tmp_path):
    ended = launched(3, "ranked_run.py", tmp_path, '{"updates": 10}', "nan", 2, 6)
    check_error(
        ended,
        "train: loss and gradient norm must be finite, got nan and nan at update 6: gradient of "
        r"embedding is nan at \[0, 0\]; --detect-anomaly finds .*; the checkpoints before it are whole",
    )
    assert not checkpoint_of(tmp_path, 8).exists() and checkpoint_of(tmp_path, 4).exists()


@pytest.mark.mpi
def test_all_ranks_skip_the_same_update(tmp_path):
    ended = launched(2, "ranked_run.py", tmp_path, '{"updates": 8, "skip_nonfinite": true}', "nan", 1, 6)
    assert (ended.code, ended.lines) == (0, [])
    skipped = [line["update"] for line in metrics_of(tmp_path) if line["kind"] == "skipped"]
    assert skipped == [6] and load_checkpoint(checkpoint_of(tmp_path, 8)).step_count == 7
