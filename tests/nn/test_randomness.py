"""Initial weights and dropout masks: their distributions, and that the seed decides them."""

import math

import numpy as np
import pytest
from small_models import random_batch, small_config, small_model

from minitransformer.config import ModelConfig
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks

# Initial values


def test_scaled_embeddings_have_unit_variance():
    model = Transformer(ModelConfig(vocab_size=500, n_layers=0, d_model=64, n_heads=2, tie_embeddings=False), seed=1)
    matrices = [model.src_embedding.table, model.tgt_embedding.table, model.projection]
    for matrix in matrices:
        scaled = matrix.data * math.sqrt(64)
        assert scaled.var() == pytest.approx(1.0, abs=0.05)
        assert abs(scaled.mean()) < 0.03


def test_every_projection_is_uniform_within_its_own_xavier_limit():
    """W^K and W^V lie side by side in one array, and each has the limit of its own shape."""
    config = ModelConfig(vocab_size=8, n_layers=1, d_model=48, d_ff=80, n_heads=2, d_k=40, d_v=10)
    model = Transformer(config, seed=1)
    keys = config.n_heads * config.d_k
    for name in model.parameters.names:
        data, last = model.parameters[name].data, name.removesuffix(".weight").rpartition(".")[2]
        parts = (
            [data[:, :keys], data[:, keys:]] if last == "w_kv" else [data] if last in ("w_q", "w_o", "w1", "w2") else []
        )
        for part in parts:
            limit = math.sqrt(6 / sum(part.shape))
            assert 0.97 * limit < np.abs(part).max() <= limit
            assert part.var() == pytest.approx(limit**2 / 3, rel=0.1)


def test_norms_start_as_the_identity_and_biases_at_zero():
    model = Transformer(small_config(attention_bias=True), seed=1)
    for name in model.parameters.names:
        last = name.rpartition(".")[2]
        if last == "gamma":
            np.testing.assert_array_equal(model.parameters[name].data, 1.0)
        elif last in ("beta", "b1", "b2", "bias"):
            np.testing.assert_array_equal(model.parameters[name].data, 0.0)
        else:
            assert model.parameters[name].data.std() > 0.0


def test_the_same_seed_gives_the_same_weights():
    first, again, other = (Transformer(small_config(), seed=seed).parameters.data for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    single = Transformer(small_config(dtype="float32"), seed=4)
    double = Transformer(small_config(), seed=4)
    for name in single.parameters.names:
        np.testing.assert_array_equal(single.parameters[name].data, double.parameters[name].data.astype(np.float32))


# Dropout masks


@pytest.mark.parametrize("p_drop", [0.1, 0.3, 0.5])
def test_dropout_keeps_a_share_of_one_minus_p(p_drop):
    keep = DropoutMasks(seed=1).keep((2000, 2000), p_drop)
    spread = math.sqrt(p_drop * (1 - p_drop) / keep.size)
    assert keep.dtype == bool and abs(keep.mean() - (1 - p_drop)) < 4 * spread
    for axis in (0, 1):
        assert abs(keep.mean(axis=axis) - (1 - p_drop)).max() < 6 * spread * math.sqrt(2000)


def test_a_dropout_mask_depends_on_seed_update_micro_batch_and_site_alone():
    def masks(*key):
        source = DropoutMasks(*key)
        return [source.keep((40, 40), 0.5) for _ in range(2)]

    reference = masks(1, 2, 3)
    for mask, again in zip(reference, masks(1, 2, 3), strict=True):
        np.testing.assert_array_equal(mask, again)
    others = [reference[1], *(masks(*key)[0] for key in ((2, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3), (1, 3, 2)))]
    for other in others:
        assert abs((reference[0] == other).mean() - 0.5) < 0.1  # independent coins agree half of the time


SITES = {"transformer": (1 + 2 * 2, 1 + 3 * 2), "language_model": (0, 1 + 2 * 2), "recurrent": (2, 2 + 1)}
"""How often dropout falls on the side of the source and on that of the target, in models of two layers."""


@pytest.mark.parametrize("kind", SITES)
def test_dropout_falls_on_both_embeddings_and_on_every_sublayer(kind, rng):
    """Sec. 5.4: on the output of each sub-layer, two in an encoder layer and three in a decoder layer, and on the sums
    of embeddings and positions. Attention weights and hidden values are dropped only where it is asked for. In a
    recurrent model it falls on the input of each layer and on the decoder's output  [Zaremba et al. 2014]."""
    model, batch = small_model(rng, kind=kind, p_drop=0.2), random_batch(rng)
    masks = []

    class Recording(DropoutMasks):
        def keep(self, shape, p_drop, xp=np, rule="dropout"):
            mask = super().keep(shape, p_drop, xp, rule)
            if mask is not None:
                masks.append((shape, p_drop))
            return mask

    model.loss(batch, Recording(1))
    on_source, on_target = ((*ids.shape, model.config.d_model) for ids in (batch.src, batch.tgt_in))
    assert masks == [(on_source, 0.2)] * SITES[kind][0] + [(on_target, 0.2)] * SITES[kind][1]
