"""The memory that ``plan`` predicts for an update is what the update uses."""

from dataclasses import asdict
from pathlib import Path

import pytest
from small_models import batch_of_shape
from tiny_run import MODEL as TINY
from tiny_run import tiny_trainer, write_config

from minitransformer import planning
from minitransformer.cli.main import main
from minitransformer.config import Config, ModelConfig, TrainingConfig
from minitransformer.models import build_model
from minitransformer.optim import Adam
from minitransformer.planning import MemoryPlan, batch_flops, parameter_count, plan_memory
from minitransformer.planning.memory import measure
from minitransformer.training import GradientAccumulator
from minitransformer.training.step import train_step

MODEL = {"vocab_size": 1000, "n_layers": 3, "d_model": 128, "d_ff": 512, "n_heads": 4}
SHORT = (32, 20, 24)
CASES = {
    "the paper's": ({}, SHORT),
    "without dropout": ({"p_drop": 0.0}, SHORT),
    "dropout everywhere": ({"p_drop_attention": 0.1, "p_drop_ffn": 0.1}, (16, 40, 30)),
    "a large vocabulary": ({"vocab_size": 20000, "n_layers": 2}, SHORT),
    "a wide feed-forward network": ({"d_ff": 2048, "n_layers": 1}, (64, 16, 16)),
    "long sentences": ({"n_layers": 2}, (4, 200, 150)),
    "pre-norm, biases, learned": (
        {"norm": "pre", "attention_bias": True, "positions": "learned", "max_positions": 256},
        SHORT,
    ),
    "untied": ({"tie_embeddings": False}, SHORT),
    "d_k and d_v of their own": ({"d_k": 16, "d_v": 64}, SHORT),
    "float64": ({"dtype": "float64", "n_layers": 1}, SHORT),
    **{
        f"recurrent, attention {attention}": ({"kind": "recurrent", "attention": attention}, shape)
        for attention, shape in {"none": SHORT, "dot": (8, 60, 80), "additive": (32, 30, 40)}.items()
    },
}


def config_of(changes: dict) -> ModelConfig:
    shape = {key: MODEL[key] for key in ("vocab_size", "n_layers", "d_model")} if "kind" in changes else MODEL
    return ModelConfig(**shape | changes)


@pytest.mark.parametrize("name", CASES)
def test_the_peak_on_numpy_is_the_planned_one(name, peak_memory):
    """Of a second update, which no longer makes what lasts."""
    changes, shape = CASES[name]
    config = config_of(changes)
    batch, model = batch_of_shape(config, shape), build_model(config)
    adam, accumulator = Adam(model.parameters), GradientAccumulator(model.parameters)
    for update in (1, 2):
        peak_memory()
        train_step(model, adam, [batch], update=update, config=TrainingConfig(), accumulator=accumulator)
    found = peak_memory()
    assert plan_memory(config, *shape).peak == pytest.approx(found, rel=0.1)


def test_base_and_big_have_the_papers_number_of_parameters():
    assert parameter_count(ModelConfig.base()) == 63_045_632  # 63.05 M without biases in attention
    assert parameter_count(ModelConfig.big()) == pytest.approx(213e6, rel=0.01)


@pytest.mark.parametrize("kind", ["transformer", "language_model", "recurrent"])
def test_the_plan_of_a_small_batch_is_what_it_needs(kind):
    """Sentences and layers that are computed and those that are extrapolated lie on one line."""
    config = config_of({"kind": kind, "n_layers": 4} if kind == "recurrent" else {"n_layers": 4})
    shape, model = (7, 20, 24), build_model(config)
    measure(model, *shape)  # makes what lasts
    kept, peak = measure(model, *shape)
    found = plan_memory(config, *shape)
    assert found.activations == pytest.approx(kept, rel=0.03)
    assert found.activations + found.working >= 0.97 * peak
    two = plan_memory(config, *shape, workers=2)  # which share parameters and Adam alone
    assert (two.parameters, two.gradients, two.adam) == (found.parameters, 2 * found.gradients, found.adam)
    for name in ("activations", "working", "per_sentence"):
        assert getattr(two, name) == pytest.approx(2 * getattr(found, name), rel=0.03)


@pytest.mark.slow
def test_the_page_of_wmt_says_what_a_plan_says():
    """Of base; big takes as many times longer as it is larger."""
    page = (Path(__file__).parents[2] / "examples/wmt14/README.md").read_text(encoding="utf-8")
    found = plan_memory(ModelConfig.base(), 3400 // 32, 32, 32)
    for start, tokens in (("memory of an update", 3400), ("the same as four micro-batches of 6,800", 6800)):
        row = next(line for line in page.splitlines() if line.startswith(f"| {start}")).split("|")
        peak = found.peak + (tokens // 32 - 3400 // 32) * found.per_sentence
        assert float(row[2].removesuffix("GiB ")) == pytest.approx(peak / 2**30, abs=0.1)


def test_the_command_prints_a_plan(tmp_path, capsys, refused):
    path = tmp_path / "config.toml"
    path.write_text("model = { vocab_size = 800, n_layers = 1, d_model = 16, d_ff = 32, n_heads = 2 }\n")
    options = ["--length", "25", "--tflops", "2", "--memory", "1", "--set", "training.updates=1000000"]
    options += ["--set", "training.micro_batches=3", "--set", "training.threads=1"]
    for device, memory in (("cpu", 2**30), ("cuda", 2**30 * 15 / 16)):  # there logits take the rest
        assert main(["plan", str(path), *options, "--set", f"execution.device={device}"]) == 0
        output = capsys.readouterr().out
        assert "parameters; micro-batches of 163 sentences of 25 + 25 tokens, 1 at a time; MiB" in output
        hours = 3e6 * batch_flops(Config.load(path).model, 163, 25, 25) / 2e12 / 3600
        assert f"\n{hours:.1f} hours at 2 TFLOP/s" in output and "1 GiB has room for" in output
        room = int(output.split("room for ")[1].split(" ")[0].replace(",", ""))
        peak = plan_memory(Config.load(path).model, room, 25, 25).peak
        assert peak == pytest.approx(memory, rel=0.02)
    for wrong in (["--length", "257"], ["--tflops", "nan"], ["--memory", "0"]):
        refused(main(["plan", str(path), *wrong]), wrong[0])
    path.write_text("")
    refused(main(["plan", str(path)]), "model.vocab_size must be given")


@pytest.mark.parametrize(
    ("updates", "save_every", "validate_every", "kept", "names"),
    [
        (12, 4, 6, 0, [4, 6, 8, 12]),
        (13, 4, 0, 0, [4, 8, 12, 13]),
        (13, 0, 5, 0, [5, 10, 13]),
        (12, 4, 6, 3, [6, 8, 12]),
        (3, 0, 0, 0, [3]),
    ],
)
def test_the_disk_is_planned_for_the_checkpoints_that_a_run_leaves(
    updates, save_every, validate_every, kept, names, tmp_path, capsys, monkeypatch
):
    training = {"updates": updates, "save_every": save_every, "validate_every": validate_every}
    run = tiny_trainer(tmp_path / "run", **training, keep_checkpoints=kept)
    run.run()
    assert [int(path.stem.removeprefix("update_")) for path in run.folder.paths()] == names
    config = {"model": asdict(TINY), "data": {"valid_src": "text"}}
    path = write_config(tmp_path / "c.toml", **config, training=training | {"keep_checkpoints": kept})
    monkeypatch.setattr(planning, "plan_memory", lambda *_: MemoryPlan(10**9, 10**9, 2 * 10**9, 0, 0, 1))
    assert main(["plan", str(path), "--length", "9", "--tflops", "1"]) == 0
    shown = f"disk: {3 * len(names) + 3}.00 GB: {len(names)} checkpoints of 3.00 GB and one being written"
    assert shown in capsys.readouterr().out
