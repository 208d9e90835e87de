"""The GPU benchmark measures what it claims: its stages run here on small sizes, emulated."""

import json
import sys

import numpy as np
import pytest
from extras import need

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu import curves, kernels, nccl, real_batches, recipes, rehearsal, results, stages, steps
from minitransformer.config import ModelConfig
from minitransformer.kernels.cupy import launch
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
    result = steps.steps(TINY, ("float32",), HERE, ("plain", "eager", "compiled"))
    entry = result["float32"]
    assert entry["compiled"] == {"failed": "RuntimeError: no compiler"}
    for name in ("ours", "plain", "eager"):
        assert entry[name]["device ms"]["lowest"] > 0
        seconds = entry[name]["device ms"]["median"] / 1000
        assert entry[name]["target tokens/s"] == pytest.approx(15 / seconds)
        assert entry[name]["TFLOP/s"] == pytest.approx(result["flops"] / seconds / 1e12)
    stages = {"base, plain kernels": result | {"seconds": 3.0}, "ceilings": {"float32 TFLOP/s": 1e-3}}
    text = results.markdown({"CuPy": "14"}, stages)
    assert "| base, plain kernels, float32: ours |" in text and "- CuPy: 14" in text
    assert "| base, plain kernels | failed: float32, compiled: RuntimeError: no compiler | 3.0 |" in text
    json.dumps(result)


def test_a_broken_pytorch_costs_nothing_but_its_own_figures(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "benchmarks.gpu.torch_update", raising=False)
    found = steps.steps(TINY, ("float32",), steps.Device(np, "cuda"), ("eager",))
    assert found["float32"]["ours"]["device ms"]["lowest"] > 0 and found["says"].startswith("float32 ours ")
    ((part, why),) = results.failures(found)
    assert part == "float32, eager" and why.startswith("ModuleNotFoundError: import of torch halted")


@pytest.mark.parity
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_the_replica_learns_in_every_precision(precision, torch, monkeypatch):
    from benchmarks.gpu import torch_update

    replica = torch_update.TorchTransformer.from_ours(Transformer(TINY.model, seed=1))
    monkeypatch.setattr(torch_update.TorchTransformer, "from_ours", lambda ours: replica)
    before = replica.embedding.weight.detach().clone()
    update = torch_update.torch_update(None, random_batch(TINY), precision, "cpu")
    assert np.isfinite([float(update()) for _ in range(3)]).all()
    assert (replica.embedding.weight != before).any()


@pytest.mark.cuda
def test_each_kernel_of_an_update_is_a_row_with_what_it_must_move(device):
    device.takes_models()
    calls, (n_rows, d) = [], (TINY.sentences * TINY.tokens, TINY.model.d_model)
    model, update = steps.our_update(TINY, "float32", HERE)
    before = launch.Counter.launches
    with kernels.recorded(calls, HERE):
        update()
    rows = kernels.table(calls, rate=1.0)
    assert sum(row["calls"] for row in rows.values()) == launch.Counter.launches - before
    assert rows["adam"]["MB"] == pytest.approx(
        7 * model.parameters.data.nbytes / 1e6
    )  # w, m and v both ways, the gradient once
    embed = next(call for call in calls if call.name == "embed")
    table, ids, positions, y = (4 * 37 * d, 8 * n_rows, 4 * TINY.tokens * d, 4 * n_rows * d)
    assert embed.moved == table + ids + positions + y
    queries = next(call for call in calls if call.name == kernels.PRODUCTS)  # three heads of five
    assert queries.flops == 2 * n_rows * d * 15
    assert queries.moved == 4 * (n_rows * d + d * 15 + n_rows * 15)


def test_what_is_broadcast_counts_once():
    mask = np.broadcast_to(np.ones((5, 1, 7), bool), (5, 3, 7))
    assert kernels.bytes_of("attention_forward", (mask, np.int64(3), np.zeros((2, 3)))) == 35 + 48
    assert kernels.bytes_of("cross_entropy", (np.zeros(10), np.zeros(3, np.int64))) == 3 * 80 + 24


def test_losses_that_rounding_does_not_explain_are_wrong(monkeypatch):
    def curve(config, precision, seed, updates, device, kernel_mode="fast", *rest, **options):
        assert config.p_drop == 0.0  # masks differ
        off = {"float32": 1.00009, "tf32": 1.011, "bfloat16": np.nan}[precision]
        return [2.0, 1.0 if kernel_mode == "simple" else off]

    monkeypatch.setattr(curves, "curve", curve)
    found = curves.like_the_cpu(HERE)
    wrong = "losses differ by {} of those of the CPU"
    assert results.failures(found) == [("tf32", wrong.format("1.1e-02")), ("bfloat16", wrong.format("nan"))]


def test_the_device_has_work_while_one_of_its_streams_does():
    def event(name, began, microseconds, kind="kernel"):
        return {"name": name, "ts": 5000 + began, "dur": microseconds, "cat": kind}

    events = [
        event("product", 0, 400),
        event("copy", 300, 200, "gpu_memcpy"),  # beside the product until 400
        event("launch", 500, 900, "cuda_runtime"),  # the host's
        {"ph": "M"},
        event("product", 900, 100),
    ]
    found = kernels.device_work(events[::-1], updates=2)
    assert (found["update ms"], found["busy ms"]) == (0.5, 0.3)
    assert found["work"] == {"product": {"calls": 1.0, "ms": 0.25}, "copy": {"calls": 0.5, "ms": 0.1}}
    page = results.markdown({}, {"kernels": {"profiler": found}})
    assert "0.3 of 0.5 ms" in page and "| `product` | 1 | 0.25 | 83% |" in page
    with pytest.raises(ValueError, match="the profiler must see the device's work, got none"):
        kernels.device_work(events[2:4], updates=2)


def synthetic_text(folder, names, rng) -> None:
    """Parallel text: the German line is the English line reversed."""
    for name in names:
        lines = [[f"w{word}" for word in rng.integers(0, 9, rng.integers(1, 6))] for _ in range(120)]
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
    first = train(1.0, "training.updates=4000", *settings)
    assert 0 < first["updates"] < 4000 and "BLEU" not in first
    assert first["left to do"] == f"{4000 - first['updates']} updates: call it again"
    second = train(160.0, f"training.updates={first['updates'] + 10}", *settings)
    assert second["updates"] == first["updates"] + 10 and 0 <= second["BLEU"] <= 100
    assert second["sentences"] == 120 and second["minutes"] > first["minutes"] and "version" in second["signature"]
    assert results.outcome(first).endswith(f"after {first['updates']} updates in {first['minutes']:.1f} minutes")
    assert f"{second['BLEU']:.2f} sacreBLEU after {second['updates']} updates" in results.outcome(second)


def test_a_rehearsal_learns_subwords_of_real_text(tmp_path, monkeypatch):
    (tmp_path / "multi30k").mkdir()
    for language, line in (("en", "a dog runs"), ("de", "ein Hund rennt")):
        lines = "".join(f"{line} {'so ' * number}\n" for number in range(30))
        (tmp_path / f"multi30k/train.{language}").write_text(lines, encoding="utf-8")
    monkeypatch.setattr(real_batches, "our_update", lambda *_: (None, lambda: None))
    found = real_batches.real_batches(stages.QUICK, HERE, tmp_path)
    assert all(0 <= found[count]["padding"] < 1 for count in real_batches.COUNTS)


def test_sums_of_one_rank_change_nothing(monkeypatch):
    need("ml_dtypes")
    monkeypatch.setattr(nccl, "NcclCommunicator", rehearsal.OneRank)
    monkeypatch.setattr(nccl, "two_ranks", lambda device: {"sum": "right"})
    found = nccl.nccl(HERE, 1000, TINY)
    assert all(found[name]["a sum over one rank changes nothing"] for name in ("float32", "bfloat16"))
    assert found["update"]["equal"]


def test_only_a_curve_that_strays_from_the_seeds_is_called_outside():
    seeds = [[5.0 + offset] * 100 for offset in (-0.1, 0.0, 0.1)]
    # One more seed: mean 5, t = 4.303 for two degrees of freedom, s = 0.1, so 5 +- 4.303 * 0.1 * sqrt(4 / 3).
    result = curves.compare(seeds, [5.05] * 50 + [5.49] * 50, window=50)
    assert (result["within_band"], result["within_interval"], result["of"]) == (1, 2, 2)
    assert result["windows"][1]["interval"] == pytest.approx([5 - 0.49687, 5 + 0.49687], abs=1e-5)
    assert curves.compare(seeds, [5.5] * 100, window=50)["within_interval"] == 0
