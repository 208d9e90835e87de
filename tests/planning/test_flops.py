"""The cost of a training: the formula is the products that really run; the paper's count gives the paper's figures."""

import numpy as np
import pytest

from benchmarks.common.matrix_products import products_of, record_step
from examples.paper.models.convolution import convolution_forward
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer
from minitransformer.ops.gru import gru_forward
from minitransformer.planning.flops import batch_flops
from minitransformer.text import pad_batch

SHAPES = [
    ModelConfig(vocab_size=50, n_layers=2, d_model=16, d_ff=40, n_heads=2),
    ModelConfig(vocab_size=31, n_layers=1, d_model=24, d_ff=8, n_heads=3, d_k=5, d_v=7, tie_embeddings=False),
    ModelConfig(vocab_size=31, n_layers=3, d_model=12, d_ff=20, n_heads=4, norm="pre", positions="learned"),
]


@pytest.mark.parametrize("config", SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize("kernels", ["simple", "fast"])
def test_the_formula_is_the_sum_of_the_products_of_a_step(rng, config, kernels):
    model = Transformer(config, seed=0, kernel_mode=kernels)
    src, tgt = ([rng.integers(4, 31, length).tolist() for length in lengths] for lengths in ([6, 4, 5], [8, 8, 3]))
    products = record_step(model, pad_batch(src, tgt))
    assert sum(product.flops for product in products) == batch_flops(config, 3, 7, 9)


@pytest.mark.parametrize("taps", [1, 3, 5])
def test_a_convolution_costs_k_products_of_a_recurrent_layer(rng, taps):
    """One layer of n positions: k products of (n, d) and (d, d); a GRU has two for each of its three gates."""
    n, d = 11, 6
    x, weight = rng.standard_normal((2, n, d)), rng.standard_normal((taps, d, d))
    weights, biases, state = rng.standard_normal((2, d, 3 * d)), np.zeros((2, 3 * d)), np.ones((2, d))
    convolution = products_of(lambda x: convolution_forward(x, weight, np.zeros(d)), x)
    recurrent = products_of(lambda x, h: gru_forward(x, h, *weights, *biases), x, state)
    product = 2 * 2 * n * d * d
    beyond_the_ends = sum(abs(j - taps // 2) for j in range(taps)) * product // n
    assert sum(each.flops for each in convolution) == taps * product - beyond_the_ends
    assert sum(each.flops for each in recurrent) == 6 * product


def test_a_base_step_costs_about_6_flops_per_parameter_and_token():
    """About 6 FLOPs for each parameter of a matrix and each token that meets it."""
    config = ModelConfig.base()
    layer = 4 * 512 * 512 + 2 * 512 * 2048
    per_token = 6 * (6 * layer), 6 * (6 * (layer + 4 * 512 * 512) + 512 * 37000)
    expected = 25_000 * sum(per_token)
    assert batch_flops(config, 1000, 25, 25) == pytest.approx(expected, rel=0.02)
