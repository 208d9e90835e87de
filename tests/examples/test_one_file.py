"""examples/one_file.py: its loss and gradients are the engine's, it learns, and it keeps the form that it promises."""

import ast
from pathlib import Path

import numpy as np
import pytest

from examples import one_file
from minitransformer.batch import Batch
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer
from minitransformer.optim import Adam, learning_rate

PATH = Path(one_file.__file__)
SUBLAYERS = {
    "attention": "self_attention",
    "cross-attention": "cross_attention",
    "attention norm": "self_attention_residual.norm",
    "cross-attention norm": "cross_attention_residual.norm",
}


@pytest.fixture
def sizes(monkeypatch):
    """Another shape than the file's own: three layers, heads of different width."""
    for name, value in {"N": 3, "d_model": 12, "d_ff": 20, "h": 3, "epsilon_ls": 0.2}.items():
        monkeypatch.setattr(one_file, name, value)


def engine_of(p: dict) -> Transformer:
    shape = {"n_layers": one_file.N, "d_model": one_file.d_model, "d_ff": one_file.d_ff, "n_heads": one_file.h}
    smoothing = one_file.epsilon_ls
    model = Transformer(
        ModelConfig(vocab_size=one_file.n_tokens, p_drop=0.0, label_smoothing=smoothing, dtype="float64", **shape)
    )
    theirs = dict(model.named_parameters())
    for name, arrays in in_engine_names(p).items():
        theirs[name].data[...] = arrays
    return model


def in_engine_names(p: dict) -> dict[str, np.ndarray]:
    """Parameters, or their gradients, by the engine's names; it keeps keys and values side by side."""
    found = {"embedding": p["E"][0]}
    for name, arrays in p.items():
        if name == "E":
            continue
        stack, number, sublayer = name.split(" ", 2)
        prefix = f"{stack}.layers.{number}."
        if sublayer.endswith("attention"):
            w_q, w_k, w_v, w_o = arrays
            layer = prefix + SUBLAYERS[sublayer]
            found |= {f"{layer}.w_q.weight": w_q, f"{layer}.w_kv.weight": np.hstack([w_k, w_v])}
            found[f"{layer}.w_o.weight"] = w_o
        elif sublayer == "feed-forward":
            found |= {
                f"{prefix}feed_forward.{key}": each for key, each in zip(("w1", "b1", "w2", "b2"), arrays, strict=True)
            }
        else:
            layer = prefix + SUBLAYERS.get(sublayer, "feed_forward_residual.norm")
            found |= {f"{layer}.gamma": arrays[0], f"{layer}.beta": arrays[1]}
    return found


def random_parameters(rng: np.random.Generator) -> dict:
    """All of them random, biases and norms too."""
    p = one_file.make_parameters(rng)
    return {name: [W + 0.1 * rng.normal(size=W.shape) for W in arrays] for name, arrays in p.items()}


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_every_gradient_are_the_engines(seed, sizes):
    rng = np.random.default_rng(seed)
    p = random_parameters(rng)
    src, tgt_in, tgt_out = one_file.draw_examples(rng, 7)
    loss, g = one_file.loss_and_gradients(p, src, tgt_in, tgt_out)
    model = engine_of(p)
    batch = Batch(src, tgt_in, tgt_out, np.arange(7))
    theirs, _ = model.loss(batch)
    model.parameters.zero_grad()
    theirs.backward(1 / batch.n_tgt_tokens)
    assert loss == pytest.approx(theirs.item() / batch.n_tgt_tokens, rel=1e-12)
    gradients, named = in_engine_names(g), dict(model.named_parameters())
    assert {id(named[name]) for name in gradients} == {id(each) for each in named.values()}  # none is left out
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, named[name].grad, rtol=0, atol=1e-10, err_msg=name)


def test_three_updates_are_the_engines(sizes):
    rng = np.random.default_rng(5)
    p = random_parameters(rng)
    model = engine_of(p)
    adam = Adam(model.parameters)
    m, v = ({name: [np.zeros_like(W) for W in p[name]] for name in p} for _ in range(2))
    for step in range(1, 4):
        examples = one_file.draw_examples(rng, 7)
        batch = Batch(*examples, np.arange(7))
        _, g = one_file.loss_and_gradients(p, *examples)
        one_file.adam(p, g, m, v, step)
        model.parameters.zero_grad()
        model.loss(batch)[0].backward(1 / batch.n_tgt_tokens)
        adam.step(learning_rate(step, one_file.d_model, one_file.warmup_steps, one_file.rate_scale))
    named = dict(model.named_parameters())
    for name, values in in_engine_names(p).items():
        np.testing.assert_allclose(values, named[name].data, rtol=0, atol=1e-8, err_msg=name)


def test_its_loss_falls_far_below_that_of_a_guess(monkeypatch):
    """The whole way to 1,000 of 1,000 takes a minute; here a smaller model makes 150 updates."""
    for name, value in {"N": 1, "d_model": 32, "d_ff": 64, "warmup_steps": 60}.items():
        monkeypatch.setattr(one_file, name, value)
    losses = [loss for _, loss, _ in one_file.train(150)]
    assert losses[-1] < 0.75 * np.log(10) < losses[0]


def test_it_is_plain_numpy_of_at_most_300_lines():
    source = PATH.read_text()
    lines = source.splitlines()
    assert len(lines) <= 300 and max(map(len, lines)) <= 100 and ";" not in source
    tree = ast.parse(source)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"numpy", "os"} and not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
