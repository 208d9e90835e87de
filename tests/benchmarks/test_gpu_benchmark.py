"""The GPU benchmark measures what it claims: its stages run here on small sizes, emulated."""

import json

import numpy as np
import pytest
from extras import need

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu import curves, decoding, nccl, recipes, results, stages, steps
from minitransformer.config import ModelConfig
from minitransformer.distributed.communicator import SingleProcess
from minitransformer.models import Transformer

TINY = Size("tiny", ModelConfig(vocab_size=37, n_layers=2, d_model=12, d_ff=20, n_heads=3, d_k=5, d_v=2), 3, 5, 2, 2)
HERE = steps.Device(np, "cpu")


@pytest.mark.parity
def test_updates_are_timed_in_turn_and_a_failing_peer_is_recorded(torch, monkeypatch):
    from benchmarks.gpu import torch_update

    real = torch_update.torch_update

    def only_eager(*inputs):
        if inputs[-1]:
            raise RuntimeError("no\ncompiler")
        return real(*inputs)

    monkeypatch.setattr(torch_update, "torch_update", only_eager)
    result = steps.steps(TINY, ("float32",), HERE, ("eager", "compiled"))
    entry = result["float32"]
    assert entry["compiled failed"] == "RuntimeError: no compiler"
    for name in ("ours", "eager"):
        assert entry[name]["device ms"]["lowest"] > 0
        seconds = entry[name]["device ms"]["median"] / 1000
        assert entry[name]["target tokens/s"] == pytest.approx(15 / seconds)
        assert entry[name]["TFLOP/s"] == pytest.approx(result["flops"] / seconds / 1e12)
    text = results.markdown({"CuPy": "14"}, {"base": result | {"seconds": 3.0}, "ceilings": {"float32 TFLOP/s": 1e-3}})
    assert "| base, float32: ours |" in text and "| base | done | 3.0 |" in text and "- CuPy: 14" in text
    json.dumps(result)


@pytest.mark.parity
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_the_replica_learns_in_every_precision(precision, torch):
    from benchmarks.gpu.torch_update import torch_update

    update = torch_update(Transformer(TINY.model, seed=1), random_batch(TINY), precision, "cpu")
    losses = [float(update()) for _ in range(3)]
    assert np.isfinite(losses).all() and len(set(losses)) == 3


@pytest.mark.cuda
def test_stages_run_on_the_emulated_kernels(device):
    device.takes_models()
    entry = steps.steps(TINY, ("float32",), HERE, ())["float32"]
    assert entry["launches"] > 100
    assert {"tf32 TFLOP/s", "bfloat16 TFLOP/s", "copy TB/s"} <= set(stages.ceilings(HERE, 16))
    found = decoding.decoding(TINY, HERE, sentences=2)
    assert found["ours"]["sentences/s"] > 0
    assert "Marian" in found or "Marian failed" in found


def synthetic_text(folder, names, rng, pairs: int = 120) -> None:
    """Parallel text: the German line is the English line reversed."""
    for name in names:
        lines = [[f"w{word}" for word in rng.integers(0, 9, rng.integers(1, 6))] for _ in range(pairs)]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(line[::-1])}\n" for line in lines))


@pytest.fixture
def train(tmp_path, rng):
    """Trains a tiny model on synthetic text for so many seconds, with these settings."""
    need("sacrebleu")
    synthetic_text(tmp_path, (f"multi30k/{name}" for name in ("train", "val", "test_2016_flickr")), rng)
    tiny, run = ("model.n_layers=1", "model.d_model=16", "model.d_ff=16"), tmp_path / "run"
    return lambda seconds, *settings: recipes.trained(tmp_path, run, seconds, "cpu", [*tiny, *settings], pieces=290)


def test_a_recipe_trains_until_its_time_is_over_resumes_and_is_scored(train):
    settings = ["training.save_every=5", "training.validate_every=5", "training.log_every=5", "data.tgt_tokens=64"]
    settings.append("training.keep_checkpoints=6")
    first = train(recipes.RESERVE + 2.0, "training.updates=4000", *settings)
    assert 0 < first["updates"] < 4000 and "BLEU" not in first
    assert first["left to do"] == f"{4000 - first['updates']} updates: call it again"
    second = train(recipes.RESERVE + 60.0, f"training.updates={first['updates'] + 10}", *settings)
    assert second["updates"] == first["updates"] + 10 and 0 <= second["BLEU"] <= 100
    assert second["sentences"] == 120 and second["minutes"] > first["minutes"] and "version" in second["signature"]
    assert results.outcome(first).startswith("unfinished: ")
    assert f"{second['BLEU']:.2f} sacreBLEU after {second['updates']} updates" in results.outcome(second)


class OneRank(SingleProcess):
    """A rank that needs no id."""

    def make_id(self):
        return ""

    def join(self, unique_id):
        pass


def test_sums_of_one_rank_change_nothing(monkeypatch):
    need("ml_dtypes")
    monkeypatch.setattr(nccl, "NcclCommunicator", OneRank)
    found = nccl.nccl(HERE, 1000)
    assert all(found[name]["a sum over one rank changes nothing"] for name in ("float32", "bfloat16"))
    assert found["update"]["equal"]


def test_only_a_curve_that_strays_from_the_seeds_is_called_outside():
    seeds = [[5.0 + offset] * 100 for offset in (-0.1, 0.0, 0.1)]
    # One more seed: mean 5, t = 4.303 for two degrees of freedom, s = 0.1, so 5 +- 4.303 * 0.1 * sqrt(4 / 3).
    result = curves.compare(seeds, [5.05] * 50 + [5.49] * 50, window=50)
    assert (result["within_band"], result["within_interval"], result["of"]) == (1, 2, 2)
    assert result["windows"][1]["interval"] == pytest.approx([5 - 0.49687, 5 + 0.49687], abs=1e-5)
    assert curves.compare(seeds, [5.5] * 100, window=50)["within_interval"] == 0
