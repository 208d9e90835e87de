"""The memory that ``plan`` predicts for an update is what the update uses."""

import re
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from small_models import batch_of_shape

from minitransformer.cli.main import main
from minitransformer.cli.train import suggest_micro_batches
from minitransformer.config import Config, ModelConfig, TrainingConfig
from minitransformer.models import build_model
from minitransformer.optim import Adam
from minitransformer.planning import Shape, larger_micro_batches, parameter_count, plan
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
    packed = 2 * 12 * 512 * 1536  # of self-attention in each layer, w_q and w_kv side by side
    assert half.activations == exact.activations // 2 + packed and half.copies == half.parameters // 2
    assert plan(config, shape).activations > exact.activations


def written(path, count: int, tokens: int) -> Path:
    """A config of base with so many micro-batches of ``tokens`` source and a little fewer target tokens."""
    data = f"data = {{ src_tokens = {tokens}, tgt_tokens = {tokens - 400} }}"
    path.write_text(f"model = {{ vocab_size = 37000 }}\n{data}\ntraining = {{ micro_batches = {count} }}\n")
    return path


@pytest.mark.parametrize("count", [4, 6, 8, 9])
def test_larger_micro_batches_hold_the_same_tokens_of_an_update(count, tmp_path, capsys):
    path = written(tmp_path / "config.toml", count, 3400)
    assert main(["plan", str(path)]) == 0
    settings = re.findall(r"--set (\S+?)[; ]", capsys.readouterr().out)
    larger = Config.load(path, settings)
    fewer = larger.training.micro_batches
    assert 2 <= fewer < count and fewer * larger.data.src_tokens == count * 3400
    assert fewer * larger.data.tgt_tokens == count * 3000
    assert larger_micro_batches(larger) is None or fewer > 2  # it is what the command advises, and no more


def test_micro_batches_become_no_larger_than_the_gpu_has_room_for(tmp_path):
    config = Config.load(written(tmp_path / "config.toml", 8, 3400))
    peaks = [plan(config.model, Shape(3000 * n // 32, 32, 32), library="cupy").peak for n in (4, 2)]
    for memory, fewer in ((1.3 * peaks[0], 2), (1.2 * peaks[0], 4), (1.3 * peaks[1], 4)):
        assert f"training.micro_batches={fewer} " in larger_micro_batches(config, memory)
    assert larger_micro_batches(config, 1.2 * peaks[1]) is None
    for count, tokens in ((8, 30_000), (2, 3400), (1, 3400), (7, 3400)):  # large, few, one, a prime number
        assert larger_micro_batches(Config.load(written(tmp_path / "config.toml", count, tokens))) is None


@pytest.mark.parametrize(("ranks", "update", "lines"), [(1, 0, 1), (2, 0, 0), (1, 5, 0)])
def test_training_names_larger_micro_batches_where_it_begins_on_one_gpu(ranks, update, lines, tmp_path, capsys):
    runtime = SimpleNamespace(memGetInfo=lambda: (10 << 30, 80 << 30))
    trainer = SimpleNamespace(
        xp=SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)),
        ranks=SimpleNamespace(size=ranks),
        update=update,
        config=Config.load(written(tmp_path / "config.toml", 8, 3400)),
    )
    suggest_micro_batches(trainer)
    trainer.xp = np
    suggest_micro_batches(trainer)
    text = capsys.readouterr().err
    assert text.count("training.micro_batches=2 ") == text.count("\n") == lines


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
