"""Decoding with the key-value cache gives what the whole model gives; attention maps show what it used."""

import numpy as np
import pytest
from small_models import VOCAB_SIZE, random_batch, small_model

from minitransformer.config import BOS, PAD, UNK
from minitransformer.errors import ShapeError
from minitransformer.kernels.numpy import gemm, projection
from minitransformer.nn import PrefixTreeCache

VARIANTS = [
    {},
    dict(norm="pre", attention_bias=True),
    dict(positions="learned", tie_embeddings=False),
    dict(kernel_mode="simple"),
    dict(kind="imported", activation="gelu", output_bias=True, final_norm=True, norm_eps=1e-2),
]
CACHES = pytest.mark.parametrize("kind", [lambda cache: cache, PrefixTreeCache], ids=["plain", "tree"])
MODES = pytest.mark.parametrize("mode", ["simple", "fast"])


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_cached_decoding_gives_the_logits_of_the_whole_sentence(changes, rng, relative_error):
    model, batch = small_model(rng, **changes), random_batch(rng, (5, 2, 4), (7, 7, 7))
    expected = model(batch.src, batch.tgt_in).data
    cache = model.start(batch.src, max_length=8)
    np.testing.assert_array_equal(cache.start_ids, [BOS] * 3)
    for t in range(8):
        logits = model.decode_step(batch.tgt_in[:, t], cache)
        assert relative_error(logits, expected[:, t]) < 1e-12
        assert cache.length == t + 1


@CACHES
@MODES
def test_reordered_rows_may_swap_repeat_and_leave(kind, mode, rng, relative_error):
    model, batch = small_model(rng, kernel_mode=mode), random_batch(rng, (5, 2, 4))
    sentences, generated = np.arange(3), np.empty((3, 0), dtype=int)
    cache = kind(model.start(batch.src, max_length=10))
    for t in range(10):
        generated = np.concatenate([generated, rng.integers(UNK, VOCAB_SIZE, (len(generated), 1))], axis=1)
        logits = model.decode_step(generated[:, -1], cache)
        assert relative_error(logits, model(batch.src[sentences], generated).data[:, -1]) < 1e-12
        survivors = rng.integers(0, len(generated), 6) if t < 8 else np.array([0])
        cache.reorder(survivors)
        sentences, generated = sentences[survivors], generated[survivors]


@CACHES
def test_two_caches_of_one_source_are_independent(kind, rng, relative_error):
    model, batch = small_model(rng), random_batch(rng, (5, 2, 4), (6, 6, 6))
    first, second = (kind(model.start(batch.src, max_length=7)) for _ in range(2))
    model.decode_step(batch.tgt_in[:, 0], first)
    first.reorder(np.array([2]))  # its sentence moves into the arrays of one that is finished
    logits = model.decode_step(batch.tgt_in[:, 0], second)
    assert relative_error(logits, model(batch.src, batch.tgt_in).data[:, 0]) < 1e-12


@CACHES
def test_a_step_beyond_max_length_is_refused_and_changes_nothing(kind, rng):
    model, batch = small_model(rng), random_batch(rng)
    cache = kind(model.start(batch.src, max_length=1))
    model.decode_step(batch.tgt_in[:, 0], cache)
    with pytest.raises(ShapeError, match="positions must be at most max_length = 1, got 2"):
        model.decode_step(batch.tgt_in[:, 0], cache)
    assert cache.length == 1


@pytest.mark.parametrize("block", [1, 3, 100])
def test_the_transposed_copy_equals_the_transpose_for_any_block(block, rng, monkeypatch):
    monkeypatch.setattr(projection, "COPIED_ROWS", block)
    table = rng.standard_normal((13, 6))
    copy = projection.transposed_copy(table)
    np.testing.assert_array_equal(copy, table.T)
    assert copy.flags.c_contiguous


def test_the_fast_output_projection_copies_a_prepared_table_once(rng, relative_error, monkeypatch):
    table, hidden, made = rng.standard_normal((13, 6)), rng.standard_normal((4, 6)), []
    expected, copy = hidden @ table.T, projection.transposed_copy
    monkeypatch.setattr(projection, "transposed_copy", lambda matrix: made.append(1) or copy(matrix))
    assert relative_error(projection.output_projection(hidden, table), expected) < 1e-15 and not made
    gemm.prepare_for_inference(table)
    for rows in (hidden, hidden[:1], hidden):
        assert relative_error(projection.output_projection(rows, table), expected[: len(rows)]) < 1e-15
    assert made == [1]


def test_attention_maps_are_rows_of_probabilities_that_respect_the_masks(rng):
    model, batch = small_model(rng), random_batch(rng)
    maps = model.attention_maps(batch.src, batch.tgt_in)
    expected = {f"encoder.{i}.self_attention" for i in range(2)}
    expected |= {f"decoder.{i}.{kind}_attention" for i in range(2) for kind in ("self", "cross")}
    assert set(maps) == expected
    assert model.encoder.layers[0].self_attention.maps is None, "later calls must keep no maps"
    n_sentences, n_src, n_tgt = len(batch.src), batch.src.shape[1], batch.tgt_in.shape[1]
    padding = np.broadcast_to((batch.src == PAD)[:, None, None, :], (n_sentences, 2, n_tgt, n_src))
    for name, weights in maps.items():
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-13, err_msg=name)
    assert maps["decoder.1.cross_attention"].shape == padding.shape
    assert (maps["decoder.1.cross_attention"][padding] == 0.0).all()
    assert (np.triu(maps["decoder.0.self_attention"], 1) == 0.0).all()
