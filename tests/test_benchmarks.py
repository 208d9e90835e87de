"""The benchmarks measure what they say: the replica is our model, the floor is our products, the verdicts are right."""

import json

import numpy as np
import pytest
from extras import need
from small_models import random_batch, small_config, small_model

from benchmarks import compare_curves, growth
from benchmarks.__main__ import main as benchmarks_main
from benchmarks.common import machine, tables, work
from benchmarks.common.machine import machine_facts
from benchmarks.common.matrix_products import record_step, replay
from minitransformer.config import Config, TrainingConfig
from minitransformer.errors import ConfigError
from minitransformer.figures import png_bytes
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam
from minitransformer.text import Tokenizer
from minitransformer.training import Trainer, read_metrics, train_step


@pytest.fixture
def batches(rng):
    return [random_batch(rng), random_batch(rng, (8, 3, 6), (2, 7, 5))]


@pytest.fixture
def replica_of(torch):
    """PyTorch's model with the weights of ours."""
    from benchmarks.peers.torch_model import TorchTransformer

    return TorchTransformer.from_ours


@pytest.mark.parity
def test_without_dropout_the_replica_learns_as_our_model_does(replica_of, rng, batches):
    from benchmarks.peers.torch_step import torch_adam, torch_train_step

    model, config = small_model(rng, p_drop=0.0), TrainingConfig(warmup_steps=10)
    adam = Adam(model.parameters, config.beta1, config.beta2, config.eps)
    replica = replica_of(model)
    replica_adam = torch_adam(replica, config)
    for update in range(1, 21):
        ours = train_step(model, adam, batches, update=update, config=config)
        theirs = torch_train_step(replica, replica_adam, batches, update=update, config=config)
        for name in ("loss", "nll", "gradient_norm", "learning_rate", "n_src_tokens", "n_tgt_tokens"):
            assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-8)


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
    theirs, _ = replica.loss(*(torch.from_numpy(ids).long() for ids in (batch.src, batch.tgt_in, batch.tgt_out)))
    assert theirs.item() == pytest.approx(loss.item(), rel=1e-12)


@pytest.mark.parity
def test_a_variant_that_the_replica_does_not_have_is_refused(replica_of, rng):
    with pytest.raises(ConfigError, match="model.norm must be 'post', got 'pre'"):
        replica_of(small_model(rng, norm="pre"))


@pytest.mark.parametrize("kernels", ["simple", "fast"])
def test_a_step_multiplies_exactly_the_matrices_of_the_formula(kernels, batches):
    config, batch = small_config(), batches[0]
    (n_sentences, S), T = batch.src.shape, batch.tgt_in.shape[1]
    d, heads = config.d_model, config.n_heads * (config.d_k + config.d_v)
    self_attention = {n: n * 2 * d * heads + n * n * heads for n in (S, T)}
    cross_attention = (S + T) * d * heads + S * T * heads
    feed_forward = (S + T) * 2 * d * config.d_ff
    layers = config.n_layers * (sum(self_attention[n] for n in (S, T)) + cross_attention + feed_forward)
    forward = 2 * n_sentences * (layers + T * d * config.vocab_size)

    model = Transformer(config, seed=1, kernel_mode=kernels)
    products = record_step(model, batch)
    assert sum(product.flops for product in products) == 3 * forward  # two gradients for each product
    assert all(type(model.parameters[name].data) is np.ndarray for name in model.parameters.names)
    replay(products)()


def test_the_two_halves_of_a_batch_are_the_batch():
    batch = work.random_batch(work.Size("tiny", small_config(), sentences=5, tokens=4, rounds=1))
    parts = work.halves(batch)
    for name in ("src", "tgt_in", "tgt_out", "rows"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(batch, name))


@pytest.mark.parity
def test_a_race_measures_each_contestant_in_every_round(torch, monkeypatch):
    from benchmarks import training_step

    monkeypatch.setattr(training_step, "PAUSE", 0.0)
    size = work.Size("tiny", small_config(), sentences=3, tokens=5, rounds=2)
    seconds = training_step.race(size, work.random_work(size), size.rounds)
    assert {name: len(values) for name, values in seconds.items()} == dict.fromkeys(
        ["side by side", "one batch", "pytorch", "products"], 2
    )
    result = training_step.summary(
        size, {"side by side": [3.0, 4.0], "one batch": [5.0, 5.0], "pytorch": [2.0, 2.0], "products": [4.0, 4.0]}
    )
    assert result["ours / pytorch"] == 1.75 and result["met"]
    assert "| V 13 · d 6 · 2+2 · d_ff 10 · 3 x 5 | 3500 (3000 to 4000)" in training_step.markdown({}, [result])


def test_machine_facts_name_what_a_figure_depends_on():
    assert {"processor", "cores", "NumPy", "BLAS", "PyTorch", "threads", "commit"} <= machine_facts().keys()


@pytest.mark.parity
def test_results_of_another_maker_of_processors_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    for name, maker in (("AMD EPYC", "amd"), ("Intel(R) Xeon(R)", "intel"), ("Neoverse-N1", "other")):
        monkeypatch.setattr(machine, "processor_name", lambda name=name: name)
        assert machine.of_this_maker("step") == f"step.{maker}"
        tables.save_results(machine.of_this_maker("step"), {"on": name}, f"on {name}", name.encode())
    for suffix in ("md", "png"):
        names = sorted(path.name for path in tmp_path.glob(f"*.{suffix}"))
        assert names == [f"step.amd.{suffix}", f"step.intel.{suffix}", f"step.other.{suffix}"]
    assert json.loads((tmp_path / "step.amd.json").read_text()) == {"on": "AMD EPYC"}


def test_both_trainings_write_the_same_curve_where_there_is_no_dropout(torch, tmp_path, rng, capsys):
    from benchmarks import multi30k_torch

    words = ["one", "two", "three", "four", "five", "six"]
    for side in ("src", "tgt"):
        lines = [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(40)]
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    Tokenizer.train(words, 280).save(tmp_path / "bpe")
    path = tmp_path / "config.toml"
    path.write_text(f"""
        model = {{ n_layers = 1, d_model = 16, d_ff = 16, n_heads = 2, p_drop = 0.0 }}
        training = {{ directory = "{tmp_path}/run", updates = 6, warmup_steps = 5, log_every = 2 }}
        [data]
        train_src = "{tmp_path}/src"
        train_tgt = "{tmp_path}/tgt"
        tokenizer = "{tmp_path}/bpe"
        src_tokens = 200
        tgt_tokens = 200
    """)
    setting = "training.micro_batches=2"
    command = [str(path), "--set", setting, "--updates", "6", "--log-every", "2", "--threads", "1"]
    assert multi30k_torch.main(command) == 0
    Trainer(Config.load(path, [setting]), progress=False).run()
    theirs = read_metrics(tmp_path / "run" / "metrics_torch.jsonl")
    ours = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert len(ours) == len(theirs) == 3
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for name in ("update", "epoch", "loss", "nll", "ppl", "learning_rate", "gradient_norm"):
            assert other[name] == pytest.approx(one[name], rel=1e-5)
    capsys.readouterr()
    assert multi30k_torch.main(command) == 2
    assert "must not exist yet" in capsys.readouterr().err


def test_only_a_curve_that_strays_from_the_seeds_is_called_outside():
    updates = range(10, 101, 10)
    ours = [{update: 5.0 + offset for update in updates} for offset in (-0.1, 0.0, 0.1)]
    # One more seed: mean 5, t = 4.303 for two degrees of freedom, s = 0.1, so 5 +- 4.303 * 0.1 * sqrt(4 / 3).
    curve = {update: 5.0 + (0.05 if update <= 50 else 0.49) for update in updates}
    result = compare_curves.compare(ours, curve, window=50)
    assert (result["within_band"], result["within_interval"], result["of"]) == (1, 2, 2)
    assert result["windows"][1]["interval"] == pytest.approx([5 - 0.49687, 5 + 0.49687], abs=1e-5)
    result = compare_curves.compare(ours, {update: 5.5 for update in updates}, window=50)
    assert (result["within_band"], result["within_interval"]) == (0, 0)


def test_comparing_curves_writes_a_picture_and_its_figures(tmp_path, capsys):
    need("matplotlib")
    for number in range(4):
        lines = [{"kind": "train", "update": 10 * i, "loss": 9 / i + 0.01 * number} for i in range(1, 11)]
        (tmp_path / f"{number}").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ["--ours", *(str(tmp_path / name) for name in "013"), "--pytorch", str(tmp_path / "2")]
    command += ["--window", "50", "--output", str(tmp_path / "curves")]
    assert compare_curves.main([*command, "--updates", "100"]) == 0
    assert "band of our seeds in 2 of 2 windows" in capsys.readouterr().out
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "curves.json").read_text())["of"] == 2
    assert compare_curves.main([*command, "--updates", "500"]) == 2
    assert "must reach update 500, got 100" in capsys.readouterr().err


def test_growth_finds_the_exponent_of_a_power_law():
    sizes = [2, 4, 8, 16, 32]
    assert growth.exponent(sizes, [9.0, 9.0, *(3.0 * size**1.7 for size in sizes[2:])]) == pytest.approx(1.7)


def test_growth_measures_more_work_and_memory_for_longer_sentences():
    short, long = (growth.measure(growth.START | {"length": length, "batch": 2}, steps=1) for length in (8, 32))
    assert long["flops"] > 4 * short["flops"] and long["bytes"] > 2 * short["bytes"]
    assert short["seconds"] > 0


def test_growth_draws_and_tabulates_every_axis():
    axis = growth.Axis("batch", "sentences", (2, 4, 8), 1, 1)
    result = growth.grow(axis, axis.sizes, steps=1)
    assert result["exponents"]["flops"] == pytest.approx(1.0)
    assert "| batch (sentences) | 2 - 8 |" in growth.markdown({}, [result])
    need("matplotlib")
    assert png_bytes(growth.draw([result])).startswith(b"\x89PNG")


def test_an_unknown_benchmark_is_refused_in_one_line(capsys):
    assert benchmarks_main(["growht"]) == 2
    known = "training_step, step_memory, subwords, wmt_scale, decoding, key_value_cache, growth, scaling, gpu"
    assert capsys.readouterr().err == f"benchmarks: NAME must be one of {known}, got 'growht'\n"
