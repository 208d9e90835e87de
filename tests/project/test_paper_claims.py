"""Claims of the paper about the whole model and its training that no other test states; docs/paper.md lists
all of them."""

import math
from pathlib import Path

import numpy as np
import pytest
import slow_versions
from cases import value
from small_models import random_batch, small_model

from examples.paper.models.convolution import convolution
from minitransformer.autograd import Tensor, no_grad
from minitransformer.config import PAD, Config, ModelConfig
from minitransformer.nn.positions import sinusoids
from minitransformer.ops.elementwise import relu
from minitransformer.ops.feed_forward import feed_forward
from minitransformer.ops.layer_norm import layer_norm
from minitransformer.planning import batch_flops

RECIPES = Path(__file__).parents[2] / "examples/wmt14"


# Sec. 3: the model


def test_multi_head_attention_is_the_projected_concatenation_of_its_heads(rng):
    """Each head by itself, with its own W_i^Q, W_i^K, W_i^V taken out of the packed matrices."""
    model = small_model(rng)
    config, layer = model.config, model.decoder.layers[1].cross_attention
    h, d_k, d_v = config.n_heads, config.d_k, config.d_v
    x, memory = rng.standard_normal((1, 4, config.d_model)), rng.standard_normal((1, 7, config.d_model))
    allowed = rng.random((4, 7)) < 0.7
    allowed[:, 0] = True
    w_q = np.split(layer.w_q.weight.data, h, axis=1)
    w_k, w_v = (np.split(part, h, axis=1) for part in np.split(layer.w_kv.weight.data, [h * d_k], axis=1))
    heads = [slow_versions.attention(x[0] @ w_q[i], memory[0] @ w_k[i], memory[0] @ w_v[i], allowed) for i in range(h)]
    assert [head.shape for head in heads] == [(4, d_v)] * h
    expected = np.concatenate(heads, axis=1) @ layer.w_o.weight.data
    found = layer(Tensor(x), Tensor(memory), allowed[None, None]).data[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def sub_layers_in_order(x, norm: str, sub_layers) -> np.ndarray:
    """LayerNorm(x + Sublayer(x)) of each in turn, or x + Sublayer(LayerNorm(x))."""
    for sub_layer, connection in sub_layers:
        gamma, beta = connection.norm.gamma.data, connection.norm.beta.data
        if norm == "post":
            x = value(layer_norm, x + sub_layer(Tensor(x)).data, gamma, beta)
        else:
            x = x + sub_layer(Tensor(value(layer_norm, x, gamma, beta))).data
    return x


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_layer_of_the_encoder_is_its_two_sub_layers_in_order(norm, rng):
    model, x = small_model(rng, norm=norm), rng.standard_normal((2, 5, 6))
    mask, layer = np.ones((2, 1, 1, 5), dtype=bool), model.encoder.layers[1]
    expected = sub_layers_in_order(
        x,
        norm,
        [
            (lambda y: layer.self_attention(y, y, mask), layer.self_attention_residual),
            (layer.feed_forward, layer.feed_forward_residual),
        ],
    )
    np.testing.assert_allclose(layer(Tensor(x), mask).data, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_layer_of_the_decoder_is_its_three_sub_layers_in_order(norm, rng):
    model, x, memory = small_model(rng, norm=norm), rng.standard_normal((2, 5, 6)), rng.standard_normal((2, 3, 6))
    causal, mask, layer = np.tri(5, dtype=bool)[None, None], np.ones((2, 1, 1, 3), dtype=bool), model.decoder.layers[0]
    expected = sub_layers_in_order(
        x,
        norm,
        [
            (lambda y: layer.self_attention(y, y, causal), layer.self_attention_residual),
            (lambda y: layer.cross_attention(y, Tensor(memory), mask), layer.cross_attention_residual),
            (layer.feed_forward, layer.feed_forward_residual),
        ],
    )
    np.testing.assert_allclose(layer(Tensor(x), Tensor(memory), causal, mask).data, expected, rtol=1e-10, atol=1e-12)


def test_every_position_of_the_encoder_attends_to_every_token(rng):
    model, batch = small_model(rng), random_batch(rng, (9, 4), (3, 6))
    for name, weights in model.attention_maps(batch.src, batch.tgt_in).items():
        if name.startswith("encoder"):
            tokens = np.broadcast_to((batch.src != PAD)[:, None, None, :], weights.shape)
            np.testing.assert_array_equal(weights > 0, tokens)


def test_the_feed_forward_network_is_two_convolutions_of_kernel_1(rng):
    x, w1, b1, w2, b2 = (rng.standard_normal(shape) for shape in ((2, 7, 4), (4, 6), (6,), (6, 4), (4,)))
    hidden = value(relu, value(convolution, x, w1[None], b1))
    expected = value(convolution, hidden, w2[None], b2)
    np.testing.assert_allclose(value(feed_forward, x, w1, b1, w2, b2), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n_heads", [2, 8, 32])
def test_h_heads_cost_as_much_as_one_of_full_width(n_heads):
    one, several = (ModelConfig.base(n_heads=h, d_k=512 // h, d_v=512 // h) for h in (1, n_heads))
    assert batch_flops(several, 3, 20, 30) == batch_flops(one, 3, 20, 30)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_both_stacks_are_fed_scaled_embeddings_plus_positions(positions, rng):
    model, ids = small_model(rng, positions=positions, tie_embeddings=False), rng.integers(3, 13, (2, 5))
    for embedding in (model.src_embedding, model.tgt_embedding):
        added = embedding.learned.data[:5] if positions == "learned" else sinusoids(0, 5, 6)
        with no_grad():
            np.testing.assert_allclose(embedding(ids).data, math.sqrt(6) * embedding.table.data[ids] + added)


@pytest.mark.parametrize("d_model", [16, 512])
def test_wavelengths_grow_geometrically_from_2_pi_to_10000_times_that(d_model):
    """From the angles of position 1, of which the longest wavelength stops one step short of 10000 * 2 pi."""
    (row,) = sinusoids(1, 2, d_model)
    wavelengths = 2 * math.pi / np.arctan2(row[0::2], row[1::2])
    assert wavelengths[0] == pytest.approx(2 * math.pi)
    factors = wavelengths[1:] / wavelengths[:-1]
    np.testing.assert_allclose(factors, factors[0], rtol=1e-9)
    assert wavelengths[-1] * factors[0] == pytest.approx(10000 * 2 * math.pi)


# Sec. 5 and 6.1: the recipes of WMT 2014


@pytest.mark.parametrize(("row", "updates"), [("base", 100_000), ("big", 300_000)])
@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_recipes_of_wmt_train_the_models_of_the_paper(pair, row, updates):
    recipe = Config.load(RECIPES / f"{pair}-{row}.toml")
    changes = {"p_drop": 0.1} if (pair, row) == ("en-fr", "big") else {}  # sec. 6.1
    assert recipe.model == ModelConfig.table3(row, vocab_size=0, **changes)
    training = recipe.training
    assert (training.beta1, training.beta2, training.eps) == (0.9, 0.98, 1e-9)
    assert (training.updates, training.warmup_steps, training.lr_scale, training.clip_norm) == (updates, 4000, 1, 0)
    search = recipe.translation
    assert (search.beam_size, search.alpha, search.max_extra) == (4, 0.6, 50)


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("en-*.toml")), ids=lambda path: path.stem)
def test_an_update_of_the_recipes_has_about_25000_tokens_of_each_side(recipe):
    """Of the positions, which are what is limited, padding takes a few percent: see results/wmt_scale.amd.md."""
    config = Config.load(recipe)
    for tokens in (config.data.src_tokens, config.data.tgt_tokens):
        assert 25_000 < config.training.micro_batches * tokens < 1.1 * 25_000


@pytest.mark.parametrize(("row", "count", "seconds"), [("base", 5, 0.4), ("big", 20, 1.0)])
@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_recipes_keep_the_checkpoints_that_the_paper_averages(pair, row, count, seconds):
    """Ten minutes apart, at the paper's seconds per update."""
    training = Config.load(RECIPES / f"{pair}-{row}.toml").training
    assert training.keep_checkpoints == count
    assert training.save_every * seconds == 600
