"""The profile counts every op of an update and changes nothing about it."""

import json

import numpy as np
import pytest
from small_models import random_batch, small_model
from tiny_run import final_state, tiny_config, tiny_corpus, tiny_trainer

from minitransformer import kernels
from minitransformer.config import TrainingConfig
from minitransformer.kernels.profile import Profile
from minitransformer.ops.registry import RULES
from minitransformer.optim import Adam
from minitransformer.training import GradientAccumulator, Trainer
from minitransformer.training.step import train_step
from minitransformer.workers import Workers


def profile_of(updates: int, n_workers: int, **changes) -> Profile:
    rng = np.random.default_rng(0)
    model, profile = small_model(rng, p_drop=0.1, **changes), Profile()
    micro_batches, adam, workers = [random_batch(rng), random_batch(rng)], Adam(model.parameters), Workers(n_workers)
    accumulator = GradientAccumulator(model.parameters, workers=workers)
    for update in range(1, updates + 1):
        with profile.time_update():
            train_step(model, adam, micro_batches, update=update, config=TrainingConfig(), accumulator=accumulator)
    return profile


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("mode", ["simple", "fast"])
def test_every_op_is_counted_forward_and_backward(n_workers, mode):
    profile = profile_of(3, n_workers, kernel_mode=mode)
    calls = profile.calls
    layers, micro_batches = 2, 2 * 3
    assert calls["attention", "forward"] == calls["attention", "backward"] == 3 * layers * micro_batches
    assert calls["feed_forward", "forward"] == calls["feed_forward", "backward"] == 2 * layers * micro_batches
    assert calls["projection_loss", "forward"] == calls["projection_loss", "backward"] == micro_batches
    assert profile.updates == 3
    assert {name for name, part in calls if part != "whole"} <= set(RULES)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_times_of_all_parts_add_up_to_the_time_of_the_update(threads):
    profile = profile_of(2, threads)
    table = profile.per_update(threads)
    sums = [sum(parts.values()) for parts in table.values()]
    assert sum(sums) == pytest.approx(threads * 1000 * profile.seconds["update", "whole"] / 2)
    assert all(value >= 0 for parts in table.values() for value in parts.values())
    assert sums == sorted(sums, reverse=True)


def test_nothing_is_timed_outside_the_block(rng):
    profile = Profile()
    with profile.time_update():
        assert kernels.select(RULES["softmax"], np) is not RULES["softmax"]
    assert kernels.select(RULES["softmax"], np) is RULES["softmax"]
    assert set(profile.calls) == {("update", "whole")}


def test_a_profiled_training_has_the_same_bits_and_counts_its_updates(tmp_path):
    profile = Profile()
    Trainer(tiny_config(tmp_path / "a", updates=6), tiny_corpus(), progress=False, profile=profile).run()
    tiny_trainer(tmp_path / "b", updates=6).run()
    assert profile.updates == 6
    for with_profile, without in zip(final_state(tmp_path / "a", 6), final_state(tmp_path / "b", 6), strict=True):
        np.testing.assert_array_equal(with_profile, without)


def test_train_profile_writes_a_table(tmp_path, monkeypatch, capsys):
    from minitransformer.cli.main import main

    monkeypatch.chdir(tmp_path)
    for side in ("src", "tgt"):
        (tmp_path / f"t.{side}").write_text("a b\nb a\na a b\nb b a a\n" * 5)
    assert main(["bpe", "train", "t.src", "t.tgt", "-o", "t.bpe", "--vocab-size", "262"]) == 0
    (tmp_path / "c.toml").write_text(
        "[model]\nn_layers = 1\nd_model = 8\nd_ff = 8\nn_heads = 2\n"
        '[data]\ntrain_src = "t.src"\ntrain_tgt = "t.tgt"\ntokenizer = "t.bpe"\n'
        '[training]\ndirectory = "run"\nupdates = 3\n'
    )
    assert main(["train", "c.toml", "--profile"]) == 0
    written = json.loads((tmp_path / "run" / "profile.json").read_text())
    assert written["updates"] == 3
    assert {"forward", "backward"} == set(written["milliseconds per update"]["attention"])
    assert "profile.json" in capsys.readouterr().err
    assert main(["train", "c.toml", "--profile"]) == 0  # all updates are done: there is nothing to write
