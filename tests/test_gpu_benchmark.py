"""The benchmark of a GPU does what it says: its stages run here on small sizes, emulated; failures are written down."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import gpu, gpu_curves, gpu_nccl, gpu_stages, gpu_steps
from benchmarks.work import Size, random_batch
from minitransformer.backend import driver_version
from minitransformer.config import ModelConfig
from minitransformer.distributed.alone import Alone
from minitransformer.nn import Transformer

TINY = Size("tiny", ModelConfig(vocab_size=37, n_layers=2, d_model=12, d_ff=20, n_heads=3, d_k=5, d_v=2), 3, 5, 2, 2)
HERE = gpu_steps.Place(np, "cpu")


@pytest.mark.parity
def test_updates_are_timed_in_turn_and_a_peer_that_fails_is_written_down(torch, monkeypatch):
    from benchmarks import gpu_torch

    real = gpu_torch.torch_update

    def only_eager(*inputs):
        if inputs[-1]:
            raise RuntimeError("no\ncompiler")
        return real(*inputs)

    monkeypatch.setattr(gpu_torch, "torch_update", only_eager)
    result = gpu_steps.steps(TINY, ("float32",), HERE, ("eager", "compiled"))
    entry = result["float32"]
    assert entry["compiled failed"] == "RuntimeError: no compiler"
    for name in ("ours", "eager"):
        assert entry[name]["device ms"]["lowest"] > 0
        seconds = entry[name]["device ms"]["median"] / 1000
        assert entry[name]["target tokens/s"] == pytest.approx(15 / seconds)
        assert entry[name]["TFLOP/s"] == pytest.approx(result["flops"] / seconds / 1e12)
    text = gpu.markdown({"CuPy": "14"}, {"base": result | {"seconds": 3.0}, "ceilings": {"float32 TFLOP/s": 1e-3}})
    assert "| base, float32: ours |" in text and "| base | done | 3.0 |" in text and "- CuPy: 14" in text
    json.dumps(result)


@pytest.mark.parity
def test_both_models_have_the_same_loss_with_the_same_weights(torch):
    assert gpu_steps.same_loss(TINY, HERE)["relative difference"] < 1e-5


@pytest.mark.parity
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_the_twin_learns_in_every_precision(precision, torch):
    from benchmarks.gpu_torch import torch_update

    update = torch_update(Transformer(TINY.model, seed=1), random_batch(TINY), precision, "cpu")
    losses = [float(update()) for _ in range(3)]
    assert np.isfinite(losses).all() and len(set(losses)) == 3


def test_the_time_of_an_update_is_shared_out_among_rules():
    table = gpu_steps.ops(TINY, "float32", HERE, updates=2)["milliseconds per update"]
    assert {"attention", "feed_forward", "projection_loss", "Adam", "everything else"} <= set(table)


@pytest.mark.cuda
def test_stages_run_on_the_emulated_kernels(device):
    device.takes_models()
    entry = gpu_steps.steps(TINY, ("float32",), HERE, ())["float32"]
    assert entry["launches"] > 100
    assert {"tf32 TFLOP/s", "bfloat16 TFLOP/s", "copy TB/s"} <= set(gpu_stages.ceilings(HERE, 16))
    found = gpu_stages.decoding(TINY, HERE, sentences=2)
    assert found["ours"]["sentences/s"] > 0
    assert "Marian" in found or "Marian failed" in found


@pytest.mark.mpi
def test_sums_of_one_rank_change_nothing_and_two_ranks_without_a_gpu_say_why(monkeypatch):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install minitransformer[dev]")
    if driver_version() > 0:
        pytest.skip("there is a GPU: tests/gpu and the benchmark itself look at it")
    monkeypatch.setattr(gpu_nccl, "Nccl", lambda member: Alone(member=member))
    found = gpu_nccl.nccl(HERE, 1000)
    assert all(found[name]["a sum over one rank changes nothing"] for name in ("float32", "bfloat16"))
    assert found["update"]["equal"]
    two = found["two ranks on one GPU"]
    assert two["exit status"] == 2 and "device" in two["end"][-1]


def test_a_precision_is_judged_by_the_seeds_of_float32():
    config = ModelConfig(vocab_size=20, n_layers=1, d_model=8, d_ff=8, n_heads=2)
    result = gpu_curves.curves(HERE, ("float32",), updates=6, window=3, config=config)
    assert result["float32"]["of"] == 2 and len(result["float32"]["windows"]) == 2
    assert f"float32 in {result['float32']['within_interval']} of 2 windows" in gpu.markdown({}, {"curves": result})


def test_every_stage_has_a_limit_and_every_limit_a_stage():
    assert set(gpu.LIMITS) == set(gpu_stages.STAGES)


def test_a_stage_that_fails_or_takes_too_long_is_written_down_and_the_rest_goes_on(tmp_path):
    if driver_version():
        pytest.skip("this machine has an NVIDIA driver")
    failed = gpu.run_stage("ceilings", True, 120)
    assert failed["failed"] == "exit status 1" and "device cuda: " in failed["end"][-1]
    late = gpu.run_stage("ceilings", True, 0.01)
    assert late["failed"] == "not done after 0 seconds"
    gpu.save(tmp_path / "results", {"CuPy": "14"}, {"ceilings": failed, "nccl": late})
    assert json.loads((tmp_path / "results" / "gpu.json").read_text())["stages"]["ceilings"] == failed
    assert "failed: not done after 0 seconds" in (tmp_path / "results" / "gpu.md").read_text()


def test_without_a_gpu_nothing_is_measured_and_nothing_fails(tmp_path, capsys):
    if driver_version():
        pytest.skip("this machine has an NVIDIA driver")
    assert gpu.main(["--quick", "--out", str(tmp_path / "results")]) == 0
    assert "nothing was measured: there is no NVIDIA driver" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
