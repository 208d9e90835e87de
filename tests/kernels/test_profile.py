"""The profile counts every op of an update and changes nothing about it."""

import numpy as np
import pytest
from small_models import random_batch, small_model, train
from tiny_run import assert_same_state, tiny_config, tiny_corpus, tiny_trainer

from minitransformer import kernels
from minitransformer.kernels.profile import Profile
from minitransformer.ops.registry import RULES
from minitransformer.training import Trainer
from minitransformer.workers import Workers


def profile_of(updates: int, n_workers: int, **changes) -> Profile:
    rng = np.random.default_rng(0)
    model, profile = small_model(rng, p_drop=0.1, **changes), Profile()
    micro_batches = [random_batch(rng), random_batch(rng)]
    for _ in range(updates):
        with profile.time_update():
            train(model, micro_batches, workers=Workers(n_workers))
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


@pytest.mark.parametrize("kernel", [None, lambda *vectors, **options: None], ids=["in blocks", "in one kernel"])
def test_adam_is_timed_wherever_it_computes(kernel, monkeypatch):
    monkeypatch.setattr("minitransformer.optim.adam.fused_function", lambda name, xp: kernel)
    assert profile_of(2, 1).calls["Adam", "whole"] == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_the_times_of_all_parts_add_up_to_the_time_of_the_update(threads):
    profile = profile_of(2, threads)
    table = profile.per_update(threads)
    sums = [sum(parts.values()) for parts in table.values()]
    assert sum(sums) == pytest.approx(threads * 1000 * profile.seconds["update", "whole"] / 2)
    assert all(value >= 0 for parts in table.values() for value in parts.values())
    assert sums == sorted(sums, reverse=True)


def test_nothing_is_timed_outside_the_block():
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
    assert_same_state(tmp_path / "a", tmp_path / "b", 6)
