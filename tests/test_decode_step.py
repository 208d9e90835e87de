"""Decoding with the key-value cache gives what the whole model gives; attention maps show what it used."""

import numpy as np
import pytest
from small_models import VOCAB_SIZE, random_batch, small_model

from minitransformer import workers
from minitransformer.config import PAD, UNK
from minitransformer.errors import ShapeError
from minitransformer.nn import cache as cache_module

VARIANTS = [
    {},
    dict(norm="pre", attention_bias=True),
    dict(positions="learned", tie_embeddings=False),
    dict(kernel_mode="simple"),
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_cached_decoding_gives_the_logits_of_the_whole_sentence(changes, rng, relative_error):
    model, batch = small_model(rng, **changes), random_batch(rng, (5, 2, 4), (7, 7, 7))
    expected = model(batch.src, batch.tgt_in).data
    cache = model.start_cache(model.encode(batch.src), max_length=8)
    for place in range(8):
        logits = model.decode_step(batch.tgt_in[:, place], cache)
        assert relative_error(logits, expected[:, place]) < 1e-12
        assert cache.length == place + 1


def test_a_gpu_is_given_the_table_as_it_is(rng, monkeypatch):
    """It multiplies by a view as fast; NumPy's BLAS by a copy, made once."""
    model, batch = small_model(rng), random_batch(rng)
    cache, table = model.start_cache(model.encode(batch.src), max_length=2), model.projection.data
    assert cache.turned(table) is cache.turned(table) and not np.shares_memory(cache.turned(table), table)
    monkeypatch.setattr("minitransformer.nn.cache.library_name", lambda xp: "cupy")
    assert np.shares_memory(cache.turned(table), table)


def test_reordered_caches_go_on_as_if_the_sentences_had_stood_there(rng, relative_error):
    model, batch = small_model(rng), random_batch(rng, (5, 2, 4), (6, 6, 6))
    rows = np.array([2, 0, 0, 1, 2])  # repeated, out of order: a beam
    expected = model(batch.src[rows], batch.tgt_in[rows]).data
    cache = model.start_cache(model.encode(batch.src), max_length=7)
    for place in range(3):
        model.decode_step(batch.tgt_in[:, place], cache)
    cache.reorder(rows)
    for place in range(3, 7):
        logits = model.decode_step(batch.tgt_in[rows, place], cache)
        assert relative_error(logits, expected[:, place]) < 1e-12
        if place == 4:  # fewer rows: sentences that are finished leave
            cache.reorder(np.array([4, 1]))
            rows, expected = rows[[4, 1]], expected[[4, 1]]


def test_beginnings_of_one_sentence_may_differ_and_be_exchanged_repeated_and_dropped(rng, relative_error):
    model, batch = small_model(rng), random_batch(rng, (5, 2, 4))
    sentences, said = np.arange(3), np.empty((3, 0), dtype=int)
    cache = model.start_cache(model.encode(batch.src), max_length=10)
    for place in range(10):
        said = np.concatenate([said, rng.integers(UNK, VOCAB_SIZE, (len(said), 1))], axis=1)  # each its own next word
        logits = model.decode_step(said[:, -1], cache)
        assert relative_error(logits, model(batch.src[sentences], said).data[:, -1]) < 1e-12
        survivors = rng.integers(0, len(said), 6) if place < 8 else np.array([0])
        cache.reorder(survivors)
        sentences, said = sentences[survivors], said[survivors]


@pytest.mark.parametrize(("block", "n_threads"), [(1, 1), (3, 2), (100, 3)])
def test_the_transposed_table_is_whole_however_it_is_copied(block, n_threads, rng, monkeypatch):
    monkeypatch.setattr(cache_module, "COPIED_ROWS", block)
    monkeypatch.setattr(workers, "LARGE", 1)
    monkeypatch.setattr(workers, "blas_threads", lambda: n_threads)
    model, batch = small_model(rng), random_batch(rng)
    cache = model.start_cache(model.encode(batch.src), max_length=1)
    np.testing.assert_array_equal(cache.turned(model.projection.data), model.projection.data.T)


def test_two_caches_of_one_memory_do_not_disturb_each_other(rng, relative_error):
    model, batch = small_model(rng), random_batch(rng, (5, 2, 4), (6, 6, 6))
    memory = model.encode(batch.src)
    first, second = (model.start_cache(memory, max_length=7) for _ in range(2))
    model.decode_step(batch.tgt_in[:, 0], first)
    first.reorder(np.array([2]))  # its sentence moves to the place of one that is given up
    logits = model.decode_step(batch.tgt_in[:, 0], second)
    assert relative_error(logits, model(batch.src, batch.tgt_in).data[:, 0]) < 1e-12


def test_ids_that_are_not_one_for_each_row_are_refused_and_change_nothing(rng):
    model, batch = small_model(rng), random_batch(rng)
    cache = model.start_cache(model.encode(batch.src), max_length=2)
    with pytest.raises(ShapeError, match=f"each of {len(batch.src)} rows, got 1"):
        model.decode_step(batch.tgt_in[:1, 0], cache)
    assert cache.length == 0


def test_a_cache_that_is_full_says_so(rng):
    model, batch = small_model(rng), random_batch(rng)
    cache = model.start_cache(model.encode(batch.src), max_length=1)
    model.decode_step(batch.tgt_in[:, 0], cache)
    with pytest.raises(ShapeError, match="max_length = 1"):
        model.decode_step(batch.tgt_in[:, 0], cache)


def test_attention_maps_are_rows_of_probabilities_that_respect_the_masks(rng):
    model, batch = small_model(rng), random_batch(rng)
    maps = model.attention_maps(batch.src, batch.tgt_in)
    expected = {f"encoder.{i}.self_attention" for i in range(2)}
    expected |= {f"decoder.{i}.{kind}_attention" for i in range(2) for kind in ("self", "cross")}
    assert set(maps) == expected
    n_sentences, n_src, n_tgt = len(batch.src), batch.src.shape[1], batch.tgt_in.shape[1]
    padding = np.broadcast_to((batch.src == PAD)[:, None, None, :], (n_sentences, 2, n_tgt, n_src))
    for name, weights in maps.items():
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-13, err_msg=name)
    assert maps["decoder.1.cross_attention"].shape == padding.shape
    assert (maps["decoder.1.cross_attention"][padding] == 0.0).all()
    assert (np.triu(maps["decoder.0.self_attention"], 1) == 0.0).all()
