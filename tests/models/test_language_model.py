"""The language model: prompts and their positions, its loss, its search, its cost."""

from dataclasses import replace

import numpy as np
import pytest

from minitransformer.config import BOS, EOS, ModelConfig
from minitransformer.errors import ConfigError, ShapeError
from minitransformer.generation import beam_search, greedy_search, hypothesis_attention
from minitransformer.generation.decoding import output_limits
from minitransformer.models import Workload, build_model
from minitransformer.text import pad_batch

SHAPE = dict(vocab_size=11, n_layers=2, d_model=8, d_ff=16, n_heads=2, p_drop=0.0)


def test_a_language_model_knows_the_tokens_of_its_prompts():
    model = build_model(ModelConfig(kind="language_model", **SHAPE))
    cache = model.start(pad_batch([[5, 6], [7], []], [[], [], []]).src, 4)
    np.testing.assert_array_equal(cache.start_ids, [6, 7, BOS])  # what the search feeds first is not in the cache yet
    np.testing.assert_array_equal(cache.is_token, [[True, True], [True, False], [False, False]])
    assert cache.max_length == 4 + 2


def test_a_step_of_a_language_model_takes_one_token_for_each_row():
    model = build_model(ModelConfig(kind="language_model", **SHAPE))
    cache = model.start(pad_batch([[5, 6], [7]], [[], []]).src, 4)
    with pytest.raises(ShapeError, match="last_ids must be one for each of 2 rows, got 1"):
        model.decode_step([5], cache)


def test_a_language_model_costs_nothing_for_a_source_and_a_transformer_does():
    config, layers = ModelConfig(**SHAPE), 2
    cost = build_model(replace(config, kind="language_model")).workload(config, 5, 7)
    assert cost == Workload(((layers, 7, 7, 7),), ((layers, 7),), outputs=7)
    attentions = ((layers, 5, 5, 5), (layers, 7, 7, 7), (layers, 7, 5, 5))
    cost = build_model(config).workload(config, 5, 7)
    assert cost == Workload(attentions, ((layers, 5), (layers, 7)), outputs=7)


@pytest.mark.parametrize("prompts", [[[5, 6, 7], [8], [], [9, 4, 4, 10]], [[8], []], [[]]], ids=str)
@pytest.mark.parametrize("kernel_mode", ["simple", "fast"])
def test_a_language_model_scores_its_outputs_for_prompts_of_any_length(kernel_mode, prompts, rng):
    """Sums of log-probabilities on the way through the cache are those of the training loss."""
    config = ModelConfig(kind="language_model", dtype="float64", label_smoothing=0.0, **SHAPE)
    model = build_model(config, seed=1, kernel_mode=kernel_mode)
    model.parameters.data[:] += 0.3 * rng.standard_normal(len(model.parameters.data))

    def log_prob(ids: list[int], ends: bool) -> float:
        batch = pad_batch([[]], [ids])
        if not ends:
            batch.tgt_out[0, -1] = 0  # the loss passes over padding
        return -model.loss(batch)[1].item()

    sources = pad_batch(prompts, [[]] * len(prompts)).src
    found = beam_search(model, sources, beam_size=3, n_best=3, max_extra=5)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        for each in hypotheses:
            ends = len(each.ids) < len(prompt) + 5
            wanted = log_prob(prompt + each.ids, ends) - log_prob(prompt, ends=False)
            assert each.log_prob == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_a_prompt_takes_its_share_of_the_learned_positions(search):
    """BOS stands at position 0 and a prompt of 5 tokens at 1 to 5; token 5 predicts the first of 8 - 5 new ones."""
    shape = SHAPE | {"positions": "learned", "max_positions": 8}
    model = build_model(ModelConfig(kind="language_model", **shape), seed=1)
    model.parameters["embedding"].data[EOS] = 0.0  # so that outputs are long
    sources = pad_batch([[5, 6, 7, 8, 9], [5]], [[], []]).src
    assert output_limits(model, sources, max_extra=50).tolist() == [3, 7]
    found = search(model, sources, max_extra=50)
    assert [len(each.ids) for each in np.ravel(found)] == [3, 7]
    assert output_limits(model, pad_batch([[5] * 7], [[]]).src, max_extra=50).tolist() == [1]
    with pytest.raises(ShapeError, match="fewer tokens than model.max_positions = 8, got 8; shorten it"):
        search(model, pad_batch([[5] * 8], [[]]).src)


def test_a_language_model_sees_no_later_token_and_no_source():
    model = build_model(ModelConfig(kind="language_model", dtype="float64", **SHAPE), seed=2)
    batch = pad_batch([[4, 5]], [[5, 6, 7, 8]])
    changed = replace(batch, src=batch.src[:, ::-1] * 0 + 9)
    assert model.loss(batch)[0].item() == model.loss(changed)[0].item()
    later = replace(batch, tgt_in=batch.tgt_in.copy())
    later.tgt_in[0, 3] = 10
    for each in (batch, later):
        each.tgt_out[0, 3:] = 0
    assert model.loss(batch)[1].item() == model.loss(later)[1].item()


def test_a_kind_without_attention_maps_is_refused_by_name():
    model = build_model(ModelConfig(kind="language_model", **SHAPE))
    with pytest.raises(ConfigError, match="model.kind must have attention maps.*, got 'language_model'"):
        hypothesis_attention(model, [5], [6])
