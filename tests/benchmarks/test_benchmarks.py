"""The benchmarks measure what they say: the replica is our model, the floor is our products, the verdicts are right."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from small_models import random_batch, small_model
from systems import in_new_process

from benchmarks import growth
from benchmarks.common import tables
from minitransformer.config import TrainingConfig
from minitransformer.errors import ConfigError
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam
from minitransformer.training import train_step


@pytest.fixture
def batches(rng):
    return [random_batch(rng), random_batch(rng, (8, 3, 6), (2, 7, 5))]


@pytest.fixture
def replica_of(torch):
    """PyTorch's model with the weights of ours."""
    from benchmarks.peers.torch_model import TorchTransformer

    return TorchTransformer.from_ours


@pytest.mark.parity
@pytest.mark.parametrize("rates", [{}, {"learning_rate": 2e-3, "schedule": "constant"}], ids=["eq. 3", "constant"])
def test_without_dropout_the_replica_learns_as_our_model_does(replica_of, rng, batches, rates):
    from benchmarks.peers.torch_step import torch_adam, torch_train_step

    model, config = small_model(rng, p_drop=0.0), TrainingConfig(warmup_steps=10, **rates)
    adam = Adam(model.parameters, config.beta1, config.beta2, config.eps)
    replica = replica_of(model)
    replica_adam = torch_adam(replica, config)
    for update in range(1, 21):
        ours = train_step(model, adam, batches, update=update, config=config)
        theirs = torch_train_step(replica, replica_adam, batches, update=update, config=config)
        assert theirs == pytest.approx(ours.loss, rel=1e-8)


def use_our_masks(torch, monkeypatch, masks: DropoutMasks):
    """Let PyTorch's dropout, and that inside its attention, ask ``masks`` instead of its own generator."""

    def dropout(x, p=0.5, training=True, inplace=False):
        keep = masks.keep(tuple(x.shape), p) if training else None
        return x if keep is None else x * torch.from_numpy(keep) / (1 - p)

    def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if is_causal else attn_mask
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1).transpose(-1, -2)
        return dropout(weights, dropout_p).transpose(-1, -2) @ v  # ours are drawn as (B, H, S, T)

    monkeypatch.setattr(torch.nn.functional, "dropout", dropout)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)


@pytest.mark.parity
def test_the_replica_applies_dropout_in_the_same_places(torch, replica_of, rng, batches, monkeypatch):
    ours, batch = small_model(rng, p_drop=0.4, p_drop_attention=0.3, p_drop_ffn=0.2), batches[0]
    replica = replica_of(ours)
    loss, _ = ours.loss(batch, DropoutMasks(7))
    use_our_masks(torch, monkeypatch, DropoutMasks(7))
    theirs = replica.loss(*(torch.from_numpy(ids).long() for ids in (batch.src, batch.tgt_in, batch.tgt_out)))
    assert theirs.item() == pytest.approx(loss.item(), rel=1e-12)


@pytest.mark.parity
def test_a_variant_that_the_replica_does_not_have_is_refused(replica_of, rng):
    with pytest.raises(ConfigError, match="model.norm must be 'post', got 'pre'"):
        replica_of(small_model(rng, norm="pre"))


def test_growth_measures_more_work_and_memory_for_longer_sentences():
    short, long = (growth.measure(growth.START | {"length": length, "batch": 2}, steps=1) for length in (8, 32))
    assert long["flops"] > 4 * short["flops"] and long["bytes"] > 2 * short["bytes"]
    assert short["seconds"] > 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to read the peak from")
def test_the_peak_of_a_step_is_that_of_its_own_process_alone():
    held = np.ones(40_000_000)  # which a child's ru_maxrss would count
    code = "from benchmarks.step_memory import peak_bytes; print(peak_bytes())"
    assert 0 < int(in_new_process(code)) < held.nbytes


def test_on_a_full_disk_earlier_results_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    tables.save_results("growth", {"old": 1}, "old\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    resource = pytest.importorskip("resource")
    _, highest = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, highest))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            tables.save_results("growth", {"new": "1" * 1000}, "new\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
