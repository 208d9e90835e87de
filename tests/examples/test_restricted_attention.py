"""Restricted self-attention: what it may not see, what it costs, and a model that is made of it."""

import numpy as np
import pytest
from cases import outputs_and_gradients, padding
from small_models import random_batch, reached, small_model

from examples.paper.models.restricted_attention import RestrictedAttentionConfig, neighborhood, restricted_attention
from minitransformer.config import ModelConfig
from minitransformer.ops.attention import attention
from minitransformer.planning import batch_flops


def within(window: int) -> dict:
    return {"kind": "restricted_attention", "attention_window": window}


@pytest.mark.parametrize("seed", range(40))
def test_it_is_attention_under_a_banded_mask(seed, relative_error):
    """Any length, any window, any padding, dropout or none."""
    rng = np.random.default_rng(seed)
    length, window = int(rng.integers(1, 90)), tuple(map(int, rng.integers(0, 45, 2)))
    q, k, v = (rng.standard_normal((2, 3, length, d)) for d in (5, 5, 4))
    tokens = padding(length, int(rng.integers(1, length + 1)))[:, None, None]
    banded, options = {"mask": neighborhood(length, window, np) & tokens}, {"window": window, "mask": tokens}
    if seed % 2:
        keep = rng.random((2, 3, length, sum(window) + 1)) < 0.7
        offsets = np.arange(length) - np.arange(length)[:, None] + window[0]
        banded["keep"] = keep[..., np.arange(length)[:, None], offsets.clip(0, sum(window))]
        banded["p_drop"], options["keep"], options["p_drop"] = 0.3, keep, 0.3
    expected, grads_y = outputs_and_gradients(attention, (q, k, v), banded, rng)
    with np.errstate(divide="raise"):
        found, _ = outputs_and_gradients(restricted_attention, (q, k, v), options, rng, grads_y)
    for ours, wanted in zip(found, expected, strict=True):
        assert relative_error(ours, wanted) < 1e-12


def test_its_memory_grows_with_the_length_not_its_square(rng, peak_memory):
    def peak(length: int) -> int:
        q = rng.standard_normal((1, 2, length, 8)).astype(np.float32)
        peak_memory()
        y, saved = restricted_attention.forward(q, q, q, window=(8, 8))
        restricted_attention.backward(y, saved)
        return peak_memory()

    assert peak(4096) < 4.4 * peak(1024)


@pytest.mark.parametrize("kernel_mode", ["simple", "fast"])
def test_cached_decoding_gives_the_logits_of_the_whole_sentence(kernel_mode, rng, relative_error):
    model, batch = small_model(rng, kernel_mode=kernel_mode, **within(2)), random_batch(rng, (5, 2), (9, 9))
    expected = model(batch.src, batch.tgt_in).data
    cache = model.start(batch.src, max_length=10)
    for t in range(10):
        assert relative_error(model.decode_step(batch.tgt_in[:, t], cache), expected[:, t]) < 1e-12
    assert cache.layers[0][0].shape[2] == 3  # the keys of two positions and the newest


def test_the_reach_of_a_layer_is_the_window_and_that_of_two_is_twice_as_far(rng):
    """The maximum path length of Table 1, n / r, seen in what changes."""
    for n_layers in (1, 2, 3):
        model = small_model(rng, **within(2), n_layers=n_layers)
        assert reached(model, rng, 17, 8) == [*range(8 - 2 * n_layers, 8 + 2 * n_layers + 1)]


def test_flops_of_restricted_attention_grow_with_the_length():
    shape = dict(vocab_size=10, n_layers=1, d_model=8, d_ff=16, n_heads=2)
    cost = [batch_flops(RestrictedAttentionConfig(**shape, **within(4)), 1, n, 1) for n in (100, 200, 300)]
    whole = [batch_flops(ModelConfig(**shape), 1, n, 1) for n in (100, 200, 300)]
    assert cost[2] - cost[1] == cost[1] - cost[0] and whole[2] - whole[1] > whole[1] - whole[0]
