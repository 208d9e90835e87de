"""A kind of model says whether it reads a source, and does as it says."""

import tomllib
from dataclasses import replace

import pytest
from small_models import batch_of_shape

from minitransformer.config import ModelConfig
from minitransformer.models import build_model

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_depends_on_the_source_if_the_model_says_that_it_reads_it(kind):
    config = ModelConfig(vocab_size=40, p_drop=0.0, **KINDS[kind])
    model, batch = build_model(config), batch_of_shape(config, (2, 5, 6))
    other = replace(batch, src=batch.src[::-1])
    assert (model.loss(batch)[0].item() != model.loss(other)[0].item()) != model.is_decoder_only
