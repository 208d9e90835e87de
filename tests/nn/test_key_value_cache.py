"""The plain key-value cache and the prefix tree, against attention over whole rows, without any model around them."""

import numpy as np
import pytest
from small_models import random_batch, small_config, small_model

from minitransformer.autograd import Tensor, no_grad
from minitransformer.config import ModelConfig
from minitransformer.generation.decoding import start_search
from minitransformer.models import build_model
from minitransformer.nn import KeyValueCache, PrefixTreeCache
from minitransformer.nn.attention import MultiHeadAttention
from minitransformer.nn.decoder import attend_to_past, causal_mask
from minitransformer.nn.positions import sinusoids
from minitransformer.nn.randomness import Initializer

V, D_MODEL, PAD_ID = 11, 6, 0
TABLE = np.random.default_rng(5).standard_normal((V, D_MODEL))
RECURRENT = ModelConfig(kind="recurrent", vocab_size=13, n_layers=1, d_model=4)
PROMPTS = [[3], [4, 5, 6, 7], [8, 9]]


both_kinds = pytest.mark.parametrize("kind", [lambda cache: cache, PrefixTreeCache], ids=["plain", "tree"])


def make_layers() -> list[MultiHeadAttention]:
    """Two layers of self-attention: a decoder-only model as small as can be."""
    init = Initializer(1)
    return [MultiHeadAttention(small_config(), init) for _ in range(2)]


def embedded(ids, positions) -> Tensor:
    """(R, n) to (R, n, d_model)"""
    return Tensor(TABLE[ids] + sinusoids(0, 60, D_MODEL)[positions])


def whole(layers, ids: list[int]) -> np.ndarray:
    """Outputs at all positions of one row, (t, d_model), without a cache."""
    x, causal = embedded(np.array([ids]), np.arange(len(ids))[None]), causal_mask(len(ids), np)
    for layer in layers:
        x = Tensor(x.data + layer(x, x, causal).data)
    return x.data[0]


def cached(layers, ids: np.ndarray, cache, is_token=None) -> np.ndarray:
    """Outputs at the newest positions, (R, n) to (R, n, d_model)"""
    cache.extend(*([] if is_token is None else [is_token]))
    x = embedded(ids, cache.positions)
    for number, layer in enumerate(layers):
        x = Tensor(x.data + attend_to_past(layer, x, number, cache).data)
    return x.data


def padded(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, rows))
    is_token = np.array([[i < len(row) for i in range(longest)] for row in rows])
    return np.array([row + [PAD_ID] * (longest - len(row)) for row in rows]), is_token


@both_kinds
@pytest.mark.parametrize("seed", range(5))
def test_prompts_and_steps_give_what_whole_rows_give(kind, seed, relative_error):
    """Prompts of different lengths enter at once, as a model starts a cache; then random beams, token by token."""
    rng, layers, rows = np.random.default_rng(seed), make_layers(), [list(prompt) for prompt in PROMPTS]
    cache, (ids, is_token) = KeyValueCache(np, np.full(3, 1), 40), padded(rows)
    with no_grad():
        for row, output in zip(rows, cached(layers, ids, cache, is_token), strict=True):
            assert relative_error(output[: len(row)], whole(layers, row)) < 1e-12
        cache = kind(cache)
        for _ in range(12):
            survivors = rng.integers(0, len(rows), rng.integers(1, 9))
            cache.reorder(survivors)
            assert cache.n_rows == len(survivors)
            rows = [[*rows[survivor], int(rng.integers(3, V))] for survivor in survivors]
            newest = np.array([row[-1:] for row in rows])
            for row, output in zip(rows, cached(layers, newest, cache), strict=True):
                assert relative_error(output, whole(layers, row)[-1:]) < 1e-12


@pytest.mark.parametrize(("beam_size", "kind"), [(1, KeyValueCache), (2, PrefixTreeCache)])
def test_only_a_beam_has_a_prefix_tree(beam_size, kind, rng):
    for model, expected in ((small_model(rng), kind), (build_model(RECURRENT), KeyValueCache)):
        *_, cache = start_search(model, random_batch(rng).src, 5, beam_size)
        assert type(cache) is expected
