"""The memory that ``plan`` predicts for an update is what the update uses."""

import tracemalloc
from pathlib import Path

import pytest
from small_models import batch_of_shape

from minitransformer.cli.main import main
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.models import build_model
from minitransformer.optim import Adam
from minitransformer.planning import Shape, parameter_count, plan
from minitransformer.training import GradientAccumulator
from minitransformer.training.step import train_step
from minitransformer.workers import Workers

MODEL = {"vocab_size": 1000, "n_layers": 3, "d_model": 128, "d_ff": 512, "n_heads": 4}
SHORT = Shape(32, 20, 24)
CASES = {
    "the paper's": ({}, SHORT),
    "without dropout": ({"p_drop": 0.0}, SHORT),
    "dropout everywhere": ({"p_drop_attention": 0.1, "p_drop_ffn": 0.1}, Shape(16, 40, 30)),
    "a large vocabulary": ({"vocab_size": 20000, "n_layers": 2}, SHORT),
    "a wide feed-forward network": ({"d_ff": 2048, "n_layers": 1}, Shape(64, 16, 16)),
    "long sentences": ({"n_layers": 2}, Shape(4, 200, 150)),
    "pre-norm, biases, learned": (
        {"norm": "pre", "attention_bias": True, "positions": "learned", "max_positions": 256},
        SHORT,
    ),
    "untied": ({"tie_embeddings": False}, SHORT),
    "d_k and d_v of their own": ({"d_k": 16, "d_v": 64}, SHORT),
    "float64": ({"dtype": "float64", "n_layers": 1}, SHORT),
    **{
        f"recurrent, attention {attention}": ({"kind": "recurrent", "attention": attention}, shape)
        for attention, shape in {"none": SHORT, "dot": Shape(8, 60, 80), "additive": Shape(32, 30, 40)}.items()
    },
}


def config_of(changes: dict) -> ModelConfig:
    shape = {key: MODEL[key] for key in ("vocab_size", "n_layers", "d_model")} if "kind" in changes else MODEL
    return ModelConfig(**shape | changes)


def measured(config: ModelConfig, shape: Shape, micro_batches: int = 1, workers: int = 1) -> int:
    """The peak of a second update, which no longer makes what lasts."""
    batches, threads = [batch_of_shape(config, shape)] * micro_batches, Workers(workers)
    tracemalloc.start()
    try:
        model = build_model(config)
        adam = Adam(model.parameters, workers=threads)
        accumulator = GradientAccumulator(model.parameters, workers=threads)
        for update in (1, 2):
            tracemalloc.reset_peak()
            train_step(model, adam, batches, update=update, config=TrainingConfig(), accumulator=accumulator)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CASES)
def test_the_peak_on_numpy_is_the_planned_one(name):
    changes, shape = CASES[name]
    config = config_of(changes)
    assert plan(config, shape).peak == pytest.approx(measured(config, shape), rel=0.1)


def test_two_micro_batches_at_a_time_use_what_is_planned_for_two_workers():
    config = ModelConfig(**MODEL)
    assert plan(config, SHORT, workers=2).peak == pytest.approx(measured(config, SHORT, 2, 2), rel=0.1)


@pytest.mark.parametrize("name", CASES)
def test_the_parameters_are_counted_by_formula(name):
    config = config_of(CASES[name][0])
    assert parameter_count(config) == build_model(config).parameters.count


def test_base_and_big_have_the_papers_number_of_parameters():
    assert parameter_count(ModelConfig.base()) == 63_045_632  # 63.05 M without biases in attention
    assert parameter_count(ModelConfig.big()) == pytest.approx(213e6, rel=0.01)


def test_half_precision_on_a_gpu_halves_activations_and_stores_no_masks():
    config, shape = ModelConfig.base(), Shape(800, 32, 32)
    exact, half = (plan(config, shape, library="cupy", precision=each) for each in ("float32", "bfloat16"))
    assert half.activations == exact.activations // 2 and half.copies == half.parameters // 2
    assert plan(config, shape).activations > exact.activations


def test_on_a_gpu_activations_grow_with_tokens_and_not_with_their_squares():
    """Of the same tokens in sentences four times as long."""
    short, long = (plan(ModelConfig(**MODEL), Shape(n, 2048 // n, 2048 // n), library="cupy") for n in (32, 8))
    assert short.activations == long.activations
    assert plan(ModelConfig(**MODEL), Shape(8, 256, 256)).activations > 1.5 * long.activations


@pytest.mark.parametrize(("name", "column"), [("base", 2), ("big", 3)])
def test_the_page_of_wmt_says_what_a_plan_says(name, column):
    page = (Path(__file__).parents[1] / "examples/wmt14/README.md").read_text(encoding="utf-8")
    for start, tokens in (("memory of an update", 3400), ("the same as four micro-batches of 6,800", 6800)):
        row = next(line for line in page.splitlines() if line.startswith(f"| {start}")).split("|")
        config = getattr(ModelConfig, name)()
        peak = plan(config, Shape(tokens // 32, 32, 32), library="cupy").peak
        assert float(row[column].removesuffix("GiB ")) == round(peak / 2**30, 1)


def test_the_command_prints_a_plan(tmp_path, capsys):
    path = tmp_path / "config.toml"
    path.write_text("model = { vocab_size = 37000 }\ndata = { src_tokens = 25000, tgt_tokens = 25000 }\n")
    assert main(["plan", str(path), "--length", "25", "--set", "execution.precision=bfloat16"]) == 0
    output = capsys.readouterr().out
    assert "63,045,632 parameters; a micro-batch of 1,000 sentences of 25 + 25 tokens" in output
    assert "GPU, bfloat16" in output and "not run on a GPU" in output and "projection_loss" in output
    assert main(["plan", str(path), "--length", "25001"]) == 2
    path.write_text("")
    assert main(["plan", str(path)]) == 2
    assert "model.vocab_size must be given" in capsys.readouterr().err
