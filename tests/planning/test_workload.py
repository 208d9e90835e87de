"""What a kind of model says it computes is what a step of it computes."""

import tomllib
from collections import Counter
from dataclasses import replace

import pytest
from small_models import batch_of_shape

from minitransformer.config import ModelConfig
from minitransformer.models import Transformer, build_model

RECURRENT = {"kind": "recurrent", "n_layers": 3, "d_model": 12}
STACKS = {"n_layers": 3, "d_model": 12, "d_ff": 20, "n_heads": 2}
ATTENTIONS = ("none", "dot", "additive")
# Some values are read as from a file: there a string is equal to the one in the code, but not the same object.
KINDS = {
    "transformer": STACKS,
    "language model": STACKS | {"kind": "language_model"},
    **{f"recurrent, {each}": RECURRENT | tomllib.loads(f"attention = '{each}'") for each in ATTENTIONS},
    "recurrent, one layer": RECURRENT | {"n_layers": 1},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def config_of(kind: str) -> ModelConfig:
    return ModelConfig(vocab_size=40, p_drop=0.0, **KINDS[kind])


@every_kind
def test_a_loss_depends_on_the_source_if_the_model_says_that_it_reads_it(kind):
    model, batch = build_model(config_of(kind)), batch_of_shape(config_of(kind), (2, 5, 6))
    other = replace(batch, src=batch.src[::-1])
    assert (model.loss(batch)[0].item() != model.loss(other)[0].item()) != model.is_decoder_only


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "n_heads" in KINDS[kind] and "language" not in kind])
def test_every_attention_of_the_workload_has_its_map(kind):
    config, (src_length, tgt_length) = config_of(kind), (5, 7)
    batch = batch_of_shape(config, (2, src_length, tgt_length))
    maps = build_model(config).attention_maps(batch.src, batch.tgt_in)
    planned = Counter()
    for layers, queries, keys, _ in Transformer.workload(config, src_length, tgt_length).attentions:
        planned[2, config.n_heads, queries, keys] += layers
    assert Counter(weights.shape for weights in maps.values()) == planned
