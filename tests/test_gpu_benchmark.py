"""The GPU benchmark measures what it claims: its stages run here on small sizes, emulated."""

import json
from dataclasses import replace

import numpy as np
import pytest
from extras import need
from searches import random_sources, sharp_model

from benchmarks.common.work import Size, random_batch
from benchmarks.gpu import curves, decoding, nccl, recipes, results, stages, steps
from benchmarks.gpu.real_batches import real_batches
from minitransformer.config import EOS, ModelConfig
from minitransformer.cuda_diagnosis import driver_version
from minitransformer.distributed.communicator import SingleProcess
from minitransformer.generation import beam_search
from minitransformer.models import Transformer
from minitransformer.training import Outcome

TINY = Size("tiny", ModelConfig(vocab_size=37, n_layers=2, d_model=12, d_ff=20, n_heads=3, d_k=5, d_v=2), 3, 5, 2, 2)
HERE = steps.Device(np, "cpu")
without_driver = pytest.mark.skipif(driver_version() > 0, reason="this machine has an NVIDIA driver")


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


def test_a_precision_that_fails_leaves_the_others_measured(monkeypatch, capsys):
    """What was measured is printed after each, so that it is known even if the process is killed in the next."""
    real, printed = steps.our_update, []

    def our_update(size, precision, device):
        printed.append(capsys.readouterr().out)
        if precision == "tf32":
            raise RuntimeError("illegal memory access")
        return real(size, "float32", device)

    monkeypatch.setattr(steps, "our_update", our_update)
    found = steps.steps(TINY, ("bfloat16", "tf32", "float32"), HERE, ())
    assert found["tf32"] == {"failed": "RuntimeError: illegal memory access"} and results.failed(found)
    assert all(found[name]["ours"]["device ms"]["lowest"] > 0 for name in ("bfloat16", "float32"))
    assert [set(json.loads(text or "{}")) - {"flops", "tokens"} for text in printed] == [
        set(),
        {"bfloat16"},
        {"bfloat16", "tf32"},
    ]


@pytest.mark.parity
def test_both_models_have_the_same_loss_with_the_same_weights(torch):
    assert steps.same_loss(TINY, HERE)["relative difference"] < 1e-5


@pytest.mark.parity
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_the_replica_learns_in_every_precision(precision, torch):
    from benchmarks.gpu.torch_update import torch_update

    update = torch_update(Transformer(TINY.model, seed=1), random_batch(TINY), precision, "cpu")
    losses = [float(update()) for _ in range(3)]
    assert np.isfinite(losses).all() and len(set(losses)) == 3


def test_the_time_of_an_update_is_shared_out_among_rules():
    table = steps.ops(TINY, "float32", HERE, updates=2)["milliseconds per update"]
    assert {"attention", "feed_forward", "projection_loss", "Adam", "everything else"} <= set(table)


@pytest.mark.cuda
def test_stages_run_on_the_emulated_kernels(device):
    device.takes_models()
    entry = steps.steps(TINY, ("float32",), HERE, ())["float32"]
    assert entry["launches"] > 100
    assert {"tf32 TFLOP/s", "bfloat16 TFLOP/s", "copy TB/s"} <= set(stages.ceilings(HERE, 16))
    found = decoding.decoding(TINY, HERE, sentences=2)
    assert found["ours"]["sentences/s"] > 0
    for peer in ("PyTorch", "Marian"):
        assert peer in found or f"{peer} failed" in found


@pytest.mark.parity
def test_the_search_written_with_pytorch_finds_what_ours_finds(torch):
    from benchmarks.peers.torch_decoding import beam_search as torch_beam_search
    from benchmarks.peers.torch_model import TorchTransformer

    model, src = sharp_model(3, vocab_size=60), random_sources(1, lengths=[7] * 5, vocab_size=60)
    model.embedding.data[: EOS + 1] = 0.0
    found = torch_beam_search(TorchTransformer.from_ours(model).eval(), torch.from_numpy(src), 7)
    wanted = [best.ids for (best,) in beam_search(model, src, beam_size=4, alpha=0.0, max_extra=0)]
    assert found.tolist() == wanted and len({tuple(ids) for ids in wanted}) > 1


def synthetic_text(folder, names, rng, pairs: int = 120) -> None:
    """Parallel text: the German line is the English line reversed."""
    for name in names:
        lines = [[f"w{word}" for word in rng.integers(0, 9, rng.integers(1, 6))] for _ in range(pairs)]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(line[::-1])}\n" for line in lines))


RECIPE = recipes.Recipe("small", "pairs", "test", pieces=290)


@pytest.fixture
def train(tmp_path, rng):
    """Trains a tiny model on synthetic text for so many seconds, with these settings."""
    need("sacrebleu")
    synthetic_text(tmp_path, ("pairs/train", "pairs/val", "pairs/test"), rng)
    tiny, runs = ("model.n_layers=1", "model.d_model=16", "model.d_ff=16"), tmp_path / "runs"
    return lambda seconds, *settings: recipes.trained(RECIPE, tmp_path, runs, seconds, "cpu", [*tiny, *settings])


def test_a_recipe_without_its_text_is_left_out(tmp_path):
    assert recipes.trained(RECIPE, None, tmp_path, 5.0, "cpu") == {"left out": "no --data"}
    assert "train.en" in recipes.trained(RECIPE, tmp_path, tmp_path, 5.0, "cpu")["left out"]


def test_a_recipe_trains_until_its_time_is_over_resumes_and_is_scored(train):
    settings = ["training.save_every=5", "training.validate_every=5", "training.log_every=5", "data.tgt_tokens=64"]
    settings.append("training.keep_checkpoints=6")
    first = train(recipes.RESERVE + 2.0, "training.updates=4000", *settings)
    assert 0 < first["updates"] < 4000 and "BLEU" not in first
    assert first["left to do"] == f"{4000 - first['updates']} updates: call it again"
    second = train(recipes.RESERVE + 60.0, f"training.updates={first['updates'] + 10}", *settings)
    assert second["updates"] == first["updates"] + 10 and 0 <= second["BLEU"] <= 100
    assert second["sentences"] == 120 and second["minutes"] > first["minutes"] and "version" in second["signature"]
    text = results.markdown({}, {"multi30k": first, "tatoeba": second})
    assert "unfinished: " in text and f"{second['BLEU']:.2f} sacreBLEU after {second['updates']} updates" in text


def test_a_recipe_without_time_for_a_line_of_metrics_says_what_remains(train, monkeypatch):
    monkeypatch.setattr(recipes, "run_until", lambda trainer, end: Outcome(trainer.update, 15))
    found = train(1.0, "training.updates=7")
    assert found.pop("minutes") > 0
    assert found == {"updates": 0, "of": 7, "left to do": "7 updates: call it again"}


def test_a_signal_at_the_last_update_leaves_nothing_to_do(train, monkeypatch):
    real = recipes.run_until
    monkeypatch.setattr(recipes, "run_until", lambda *inputs: replace(real(*inputs), signal=15))
    found = train(recipes.RESERVE + 60.0, "training.updates=5", "training.save_every=1")
    assert "BLEU" in found and "left to do" not in found


def test_newstest_is_decoded_by_its_lengths_where_its_text_is(tmp_path, rng):
    assert decoding.newstest(TINY, HERE, None) == {"left out": "no --data"}
    assert decoding.newstest(TINY, HERE, tmp_path) == {"left out": "no newstest/newstest2014.en-de.en"}
    synthetic_text(tmp_path, ("newstest/newstest2014.en-de",), rng, pairs=30)
    assert "no text to learn subwords from" in decoding.newstest(TINY, HERE, tmp_path)["left out"]
    synthetic_text(tmp_path, ("multi30k/train",), rng, pairs=30)
    size = replace(TINY, model=replace(TINY.model, vocab_size=290))
    found = decoding.newstest(size, HERE, tmp_path, batch=8)
    assert found["sentences"] == 30 and found["batches"] == 4 and found["subwords of"] == "multi30k"
    assert found["tokens of newstest2014"] <= found["new tokens"]
    assert found["ours"]["sentences/s"] > 0
    assert all(found[peer]["same as ours"] >= 25 for peer in ("ours", "PyTorch", "Marian") if peer in found)


def test_micro_batches_of_real_text_are_timed_with_their_padding(tmp_path, rng):
    assert real_batches(TINY, "float32", HERE, None) == {"left out": "no --data"}
    assert "no train.en of multi30k" in real_batches(TINY, "float32", HERE, tmp_path)["left out"]
    synthetic_text(tmp_path, ("multi30k/train",), rng)
    size = replace(TINY, model=replace(TINY.model, vocab_size=290))
    found = real_batches(size, "float32", HERE, tmp_path, counts=(4, 1), tokens=160)
    assert found.pop("text") == "multi30k" and set(found) == {"4", "1"}
    for entry in found.values():
        assert 0 <= entry["padding"] < 1 and entry["device ms"] > 0
        assert 0 < entry["target tokens/s"] * entry["device ms"] / 1000 <= 160


def test_the_translators_take_turns_in_each_round(monkeypatch):
    calls = []
    for name in ("ours", "torch", "marian"):
        monkeypatch.setattr(decoding, f"_{name}", lambda *_, name=name: lambda: calls.append(name) or [[1]])
    found = decoding.translated(TINY, [(1, 4)], HERE, rounds=3)
    assert calls == ["ours", "torch", "marian"] * 4  # the first time is not taken
    assert all(len(found[name]["seconds"]) == 3 for name in ("ours", "PyTorch", "Marian"))


class OneRank(SingleProcess):
    """A rank that needs no id."""

    def make_id(self):
        return ""

    def join(self, unique_id):
        pass


@pytest.mark.mpi
@without_driver
def test_sums_of_one_rank_change_nothing_and_two_without_a_gpu_say_why(monkeypatch):
    need("ml_dtypes")
    monkeypatch.setattr(nccl, "NcclCommunicator", OneRank)
    found = nccl.nccl(HERE, 1000)
    assert all(found[name]["a sum over one rank changes nothing"] for name in ("float32", "bfloat16"))
    assert found["update"]["equal"]
    two = found["two ranks on one GPU"]
    assert two["exit status"] == 2 and "device" in two["end"][-1]


def test_a_precision_is_judged_by_the_seeds_of_float32():
    config = ModelConfig(vocab_size=20, n_layers=1, d_model=8, d_ff=8, n_heads=2)
    result = curves.curves(HERE, ("float32",), updates=6, window=3, config=config)
    assert result["float32"]["of"] == 2 and len(result["float32"]["windows"]) == 2
    assert f"float32 in {result['float32']['within_interval']} of 2 windows" in results.markdown({}, {"curves": result})
