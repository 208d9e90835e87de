"""The recurrent encoder-decoder: gradients, parity with PyTorch, padding, decoding, exact resume."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import slow_versions
from searches import UncachedModel, random_sources
from small_models import check_derivative, random_batch, small_config, small_model
from tiny_run import assert_same_state, tiny_config, tiny_corpus

from minitransformer.autograd import Tensor
from minitransformer.config import PAD, ModelConfig
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.generation import beam_search, greedy_search
from minitransformer.models import RecurrentModel, build_model
from minitransformer.nn.randomness import Initializer
from minitransformer.nn.recurrent import RecurrentEncoder
from minitransformer.ops.gru import gru_forward
from minitransformer.ops.gru_cell import gru_cell_forward
from minitransformer.planning import batch_flops
from minitransformer.training import Trainer

every_attention = pytest.mark.parametrize("attention", ["none", "dot", "additive"])
every_tie = pytest.mark.parametrize("tied", [True, False])
recurrent_config, recurrent_model = (partial(make, kind="recurrent") for make in (small_config, small_model))


@every_attention
@every_tie
def test_the_gradient_of_the_model_is_the_derivative_of_its_loss(attention, tied, rng):
    model = recurrent_model(rng, attention=attention, tie_embeddings=tied, p_drop=0.3)
    check_derivative(model, random_batch(rng), rng, rel=1e-5)


def test_a_step_of_the_cell_is_a_step_of_the_recurrence(rng):
    x, h = rng.standard_normal((3, 5, 4)), rng.standard_normal((3, 6))
    weights = [rng.standard_normal(shape) for shape in ((4, 18), (6, 18), (18,), (18,))]
    y, _ = gru_forward(x, h, *weights)
    for t in range(5):
        h, _ = gru_cell_forward(x[:, t], h, *weights)
        np.testing.assert_allclose(y[:, t], h, rtol=1e-12)


@pytest.mark.parity
def test_the_encoder_is_pytorchs_bidirectional_gru_on_packed_sentences(rng, torch, relative_error):
    config, lengths = recurrent_config(d_model=8), [5, 2, 4]
    encoder, ours = RecurrentEncoder(config, Initializer(1)), Tensor(rng.standard_normal((3, 5, 8)), requires_grad=True)
    theirs = torch.nn.GRU(8, 4, num_layers=2, bidirectional=True, batch_first=True, dtype=torch.float64)
    for i, pair in enumerate(encoder.layers):
        for layer, suffix in zip(pair, ("", "_reverse"), strict=True):
            for name, weight in dict(ih=layer.w_x, hh=layer.w_h).items():
                getattr(theirs, f"weight_{name}_l{i}{suffix}").data = torch.tensor(weight.data.T.copy())
            for name, bias in dict(ih=layer.b_x, hh=layer.b_h).items():
                bias.data[:] = rng.standard_normal(len(bias))
                getattr(theirs, f"bias_{name}_l{i}{suffix}").data = torch.tensor(bias.data)
    mask, x = np.arange(5) < np.array(lengths)[:, None], torch.tensor(ours.data, requires_grad=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    found = encoder(ours, mask) * mask[..., None]
    assert relative_error(found.data, expected.detach()) < 1e-12
    cotangent = rng.standard_normal(found.shape)
    (found * cotangent).sum().backward()
    (expected * torch.tensor(cotangent)).sum().backward()
    assert relative_error(ours.grad, x.grad) < 1e-12
    first, _ = encoder.layers[0]
    assert relative_error(first.w_h.grad, theirs.weight_hh_l0.grad.T) < 1e-12


@every_attention
@every_tie
def test_logits_and_attention_are_those_of_the_formulas_sentence_by_sentence(attention, tied, rng):
    """So neither padding nor the other sentences of a batch change anything."""
    model, batch = recurrent_model(rng, attention=attention, tie_embeddings=tied), random_batch(rng)
    logits, maps = model(batch.src, batch.tgt_in).data, np.zeros((3, 1, batch.tgt_in.shape[1], batch.src.shape[1]))
    if attention != "none":
        ((name, maps),) = model.attention_maps(batch.src, batch.tgt_in).items()
        assert name == "decoder.1.cross_attention"
    for row, (src, tgt) in enumerate(zip(batch.src, batch.tgt_in, strict=True)):
        src, tgt = src[src != PAD], tgt[tgt != PAD]
        wanted, weights = slow_versions.recurrent_model(model, src, tgt)
        np.testing.assert_allclose(logits[row, : len(tgt)], wanted, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(maps[row, 0, : len(tgt), : len(src)], weights, rtol=1e-10)
        np.testing.assert_array_equal(maps[row, 0, :, len(src) :], 0.0)


@every_attention
@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_search_by_states_finds_what_the_whole_model_finds(attention, beam_size, rng):
    """Beams move at every step, and the states with them."""
    model, src = recurrent_model(rng, attention=attention, vocab_size=6), random_sources(1)
    options = {"beam_size": beam_size, "n_best": beam_size, "max_extra": 5}
    for found, wanted in zip(
        beam_search(model, src, **options), beam_search(UncachedModel(model), src, **options), strict=True
    ):
        assert [each.ids for each in found] == [each.ids for each in wanted]
        np.testing.assert_allclose([each.score for each in found], [each.score for each in wanted], rtol=1e-10)
    greedy = greedy_search(model, src, max_extra=5)
    assert [each.ids for each in greedy] == [best.ids for best, *_ in beam_search(model, src, beam_size=1, max_extra=5)]


def run_config(directory):
    config = tiny_config(directory, updates=12, save_every=4)
    shape = recurrent_config(vocab_size=20, n_layers=1, d_model=16, dtype="float32", attention="additive")
    return replace(config, model=shape)


def test_a_run_that_was_cut_short_resumes_bit_for_bit(tmp_path):
    Trainer(run_config(tmp_path / "whole"), tiny_corpus(), progress=False).run()
    config = run_config(tmp_path / "cut")
    first = replace(config, training=replace(config.training, updates=4))
    Trainer(first, tiny_corpus(), progress=False).run()
    Trainer(config, tiny_corpus(), progress=False).run()
    assert_same_state(tmp_path / "cut", tmp_path / "whole", 12)


@every_attention
def test_flops_are_six_for_each_weight_and_position_and_those_of_attention(attention):
    config, S, T = recurrent_config(attention=attention, d_model=10), 5, 7
    weights = {
        name: math.prod(shape) for name, shape in RecurrentModel.parameter_shapes(config).items() if len(shape) == 2
    }
    of_source = sum(size for name, size in weights.items() if name.startswith("encoder") or name.endswith("u_a"))
    of_target = sum(weights.values()) - of_source
    pairs = 0 if attention == "none" else 2 * S * T * config.d_model
    assert batch_flops(config, 3, S, T) == 6 * 3 * (of_source * S + of_target * T + pairs)


@pytest.mark.parametrize("name", "d_ff n_heads d_k p_drop_attention norm positions attention_bias".split())
def test_keys_of_the_transformer_are_refused(name):
    other = dict(d_ff=8, n_heads=2, d_k=3, p_drop_attention=0.1, norm="pre", positions="learned", attention_bias=True)
    with pytest.raises(ConfigError, match=f"model.{name} must be left out where model.kind is recurrent, got"):
        recurrent_config(**{name: other[name]})


def test_a_transformer_has_no_choice_of_attention():
    with pytest.raises(ConfigError, match="model.attention must be left out where model.kind is transformer, got none"):
        ModelConfig(attention="none")


@pytest.mark.parametrize("changes", [{"d_model": 7}, {"n_layers": 0}])
def test_a_shape_that_no_recurrent_model_has_is_refused(changes):
    with pytest.raises(ConfigError, match="n_layers must be at least 1 and model.d_model even"):
        build_model(recurrent_config(**changes))


def test_ids_that_do_not_fit_are_refused(rng):
    model = recurrent_model(rng)
    with pytest.raises(ShapeError, match="one target per source, got 2 and 1"):
        model(np.array([[4]]), np.array([[1], [1]]))
    cache = model.start(np.array([[4, 2], [5, 2]]), 3)
    with pytest.raises(ShapeError, match="last_ids must be one for each of 2 rows, got 1"):
        model.decode_step(np.array([1]), cache)
