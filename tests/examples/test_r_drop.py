"""R-Drop: its loss by its definition, its gradient by finite differences."""

import numpy as np
import pytest
from small_models import check_derivative, random_batch, small_model

import examples.multi30k.r_drop  # noqa: F401
from minitransformer.config import PAD
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks

DROPS = {"p_drop": 0.3, "p_drop_attention": 0.1, "p_drop_ffn": 0.1}


def test_the_loss_is_that_of_two_passes_and_of_both_their_divergences(rng):
    batch, model = random_batch(rng), small_model(rng, kind="r_drop", alpha=5.0, **DROPS)
    masks, real, eps = DropoutMasks(seed=5), batch.tgt_out != PAD, model.config.label_smoothing
    twice = (np.concatenate([ids, ids]) for ids in (batch.src, batch.tgt_in))
    logits = np.split(model(*twice, masks).data, 2)
    log_p, log_q = (each - np.log(np.exp(each).sum(axis=-1, keepdims=True)) for each in logits)
    assert np.abs(log_p - log_q).max() > 0.1
    nll = -np.take_along_axis((log_p + log_q) / 2, batch.tgt_out[..., None], -1)[..., 0]
    smoothed = (1 - eps) * nll - eps * (log_p + log_q).mean(axis=-1) / 2
    divergences = (np.exp(log_p) * (log_p - log_q)).sum(-1) + (np.exp(log_q) * (log_q - log_p)).sum(-1)
    loss, plain = model.loss(batch, DropoutMasks(seed=5))
    assert loss.item() == pytest.approx((smoothed + 5 / 4 * divergences)[real].sum())
    assert plain.item() == pytest.approx(nll[real].sum())


def test_its_gradient_is_the_slope_of_its_loss(rng):
    check_derivative(small_model(rng, kind="r_drop", alpha=5.0, **DROPS), random_batch(rng), rng)


def test_without_masks_it_is_the_transformer(rng):
    batch, model = random_batch(rng), small_model(rng, kind="r_drop", p_drop=0.0)
    plain = Transformer.loss(model, batch)[0].item()
    assert model.loss(batch)[0].item() == plain == pytest.approx(model.loss(batch, DropoutMasks(seed=1))[0].item())
