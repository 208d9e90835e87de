"""The ops against identities, definitions written with loops, and edge cases."""

import math

import numpy as np
import pytest
import slow_versions
from cases import CASES, mask, value

from minitransformer.ops.attention import attention, attention_weights
from minitransformer.ops.dropout import dropout
from minitransformer.ops.elementwise import multiply
from minitransformer.ops.embedding import embedding
from minitransformer.ops.erf import erf
from minitransformer.ops.feed_forward import feed_forward
from minitransformer.ops.layer_norm import layer_norm
from minitransformer.ops.reduce import max as max_rule
from minitransformer.ops.residual import residual_dropout_norm
from minitransformer.ops.shape import merge_heads, split_heads
from minitransformer.ops.softmax import log_softmax, softmax


@pytest.fixture
def one_head(rng):
    """q: (T, d_k)   k: (S, d_k)   v: (S, d_v)"""
    return rng.standard_normal((4, 5)), rng.standard_normal((6, 5)), rng.standard_normal((6, 3))


# Softmax and attention  [sec. 3.2.1]


def test_masked_positions_receive_zero_weight(rng):
    allowed = mask((2, 4, 6))(rng)
    weights = value(softmax, rng.standard_normal((2, 4, 6)), mask=allowed)
    assert (weights[~allowed] == 0.0).all()
    assert (weights[allowed] > 0.0).all()


def test_softmax_equals_its_definition_written_with_loops(rng):
    x, allowed = 5.0 * rng.standard_normal((4, 6)), mask((4, 6))(rng)
    masked, plain = ([*map(slow_versions.softmax_row, x, each)] for each in (allowed, np.ones_like(allowed)))
    np.testing.assert_allclose(value(softmax, x, mask=allowed), masked, rtol=1e-13)
    np.testing.assert_allclose(value(softmax, x), plain, rtol=1e-13)
    np.testing.assert_allclose(value(log_softmax, x), np.log(plain), rtol=1e-12)


def test_huge_scores_do_not_overflow():
    x = np.array([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4]])
    np.testing.assert_array_equal(value(softmax, x), [[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(value(log_softmax, x), [[0.0, -1e4, -2e4], [-math.log(3)] * 3])


def test_a_row_that_may_attend_to_nothing_has_zero_output_and_gradient(rng):
    q, k, v = (rng.standard_normal(shape) for shape in ((3, 4, 5), (3, 6, 5), (3, 6, 7)))
    allowed = np.ones((3, 4, 6), dtype=bool)
    allowed[:, 2] = False
    allowed[1] = False
    y, saved = attention.forward(q, k, v, mask=allowed)
    grad_q, grad_k, grad_v = attention.backward(rng.standard_normal(y.shape), saved)
    for array in (y[:, 2], y[1], grad_q[:, 2], grad_q[1], grad_k[1], grad_v[1]):
        np.testing.assert_array_equal(array, 0.0)
    assert np.isfinite(y).all() and all(np.isfinite(grad).all() for grad in (grad_q, grad_k, grad_v))


def test_attention_equals_the_formula_written_with_loops(one_head, rng):
    q, k, v = one_head
    allowed = mask((4, 6))(rng)
    allowed[1] = False
    expected = slow_versions.attention(q, k, v, allowed)
    np.testing.assert_allclose(value(attention, q, k, v, mask=allowed), expected, rtol=1e-12, atol=1e-15)


def test_a_masked_key_cannot_change_the_output_and_gets_no_gradient(one_head, rng):
    q, k, v = one_head
    allowed = np.arange(6)[None, :] != 2
    y, saved = attention.forward(q, k, v, mask=allowed)
    _, grad_k, grad_v = attention.backward(rng.standard_normal(y.shape), saved)
    np.testing.assert_array_equal(grad_k[2], 0.0)
    np.testing.assert_array_equal(grad_v[2], 0.0)
    k[2], v[2] = 100.0, -100.0
    np.testing.assert_array_equal(value(attention, q, k, v, mask=allowed), y)


def test_attention_weights_are_the_weights_that_attention_uses(rng):
    q, k = rng.standard_normal((2, 4, 5)), rng.standard_normal((2, 6, 5))
    allowed = mask((4, 6))(rng)
    weights, _ = attention_weights(q, k, mask=allowed)
    np.testing.assert_allclose(value(attention, q, k, np.broadcast_to(np.eye(6), (2, 6, 6)), mask=allowed), weights)


def test_scaled_scores_of_random_queries_and_keys_have_unit_variance(rng):
    d_k = 64
    q, k = rng.standard_normal((400, d_k)), rng.standard_normal((400, d_k))
    weights, _ = attention_weights(q, k)
    scores = np.log(weights)  # the scores, less a constant per row
    assert np.var(scores, axis=-1).mean() == pytest.approx(1.0, rel=0.05)


def test_splitting_into_heads_and_merging_gives_the_input_back(rng):
    packed = rng.standard_normal((2, 5, 12))
    np.testing.assert_array_equal(value(merge_heads, value(split_heads, packed, n_heads=3, widths=(4,))), packed)


# Layer norm, feed-forward, residual  [sec. 3.1, 3.3]


def test_layer_norm_equals_the_formula_written_with_loops(rng):
    x, gamma, beta = rng.standard_normal((4, 6)), rng.standard_normal(6), rng.standard_normal(6)
    expected = [slow_versions.layer_norm_row(row, gamma, beta, 0.01) for row in x]
    np.testing.assert_allclose(value(layer_norm, x, gamma, beta, eps=0.01), expected, rtol=1e-12)


def test_feed_forward_equals_the_formula_written_with_loops(rng):
    x, w1, b1, w2, b2 = (rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 6), (6,), (6, 4), (4,)))
    expected = [[slow_versions.feed_forward_row(row, w1, b1, w2, b2) for row in rows] for rows in x]
    np.testing.assert_allclose(value(feed_forward, x, w1, b1, w2, b2), expected, rtol=1e-12)


def test_residual_dropout_norm_is_dropout_then_sum_then_norm(rng):
    x, sublayer = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 3, 8))
    gamma, beta, keep = rng.standard_normal(8), rng.standard_normal(8), rng.random((2, 3, 8)) < 0.7
    total = x + value(dropout, sublayer, keep=keep, p_drop=0.3)
    y = value(residual_dropout_norm, x, sublayer, gamma, beta, keep=keep, p_drop=0.3)
    np.testing.assert_allclose(y, value(layer_norm, total, gamma, beta), rtol=1e-13)


# Dropout  [sec. 5.4]


def test_dropped_values_are_zero_and_kept_ones_grow(rng):
    x, keep = rng.standard_normal((6, 7)), rng.random((6, 7)) < 0.75
    np.testing.assert_allclose(value(dropout, x, keep=keep, p_drop=0.25), np.where(keep, x / 0.75, 0.0), rtol=1e-14)


WITH_DROPOUT = [case for case in CASES if case.options.get("keep") and case.rule is not dropout]


@pytest.mark.parametrize("case", WITH_DROPOUT, ids=str)
def test_a_mask_that_keeps_everything_changes_nothing(case):
    inputs, options = case.make()
    options = {name: option for name, option in options.items() if name != "p_drop"}
    all_kept = options | {"keep": np.ones_like(options["keep"])}
    expected = value(case.rule, *inputs, **options | {"keep": None})
    np.testing.assert_array_equal(value(case.rule, *inputs, **all_kept), expected)


# Embedding, arithmetic, reductions


@pytest.mark.parametrize("scale", [0.0, 1.0, 2.0])
def test_an_embedding_is_a_row_of_the_table_times_the_scale(scale, rng):
    table, ids = rng.standard_normal((7, 4)), rng.integers(0, 7, (2, 5))
    np.testing.assert_array_equal(value(embedding, table, ids=ids, scale=scale), scale * table[ids])


def test_the_vector_of_a_single_id_is_a_copy(rng):
    table = rng.standard_normal((7, 4))
    before = table.copy()
    for number in (3, np.int64(3), np.array(3)):
        y, saved = embedding.forward(table, ids=number, scale=2.0)
        np.testing.assert_array_equal(y, 2.0 * before[3])
        np.testing.assert_array_equal(table, before)
        np.testing.assert_array_equal(embedding.backward(np.ones(4), saved)[0].sum(axis=1), 8.0 * (np.arange(7) == 3))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_the_gradient_of_an_embedding_arrives_in_the_rows_of_its_ids_whatever_their_dtype(dtype, rng):
    """With d_model = 1000 a place in the flattened table needs more than 16 bits."""
    table, ids = rng.standard_normal((100, 1000)), np.array([[5, 99, 5]], dtype)
    y, saved = embedding.forward(table, ids=ids)
    (grad_table,) = embedding.backward(np.ones(y.shape), saved)
    np.testing.assert_array_equal(grad_table.sum(axis=1), np.bincount(ids[0].astype(int), minlength=100) * 1000)


@pytest.mark.parametrize("shapes", [((0, 1), (0, 3)), ((1, 3), (0, 3))], ids=str)
def test_gradients_of_empty_arrays_have_the_shapes_of_the_inputs(shapes, rng):
    a, b = (rng.standard_normal(shape) for shape in shapes)
    y, saved = multiply.forward(a, b)
    assert tuple(grad.shape for grad in multiply.backward(np.ones(y.shape), saved)) == shapes


def test_the_error_function_is_pythons_to_the_last_digits():
    x = np.array([-np.inf, -30.0, -3.0, -0.7, -1e-300, 0.0, 0.4, 1.5, 4.0, np.inf])
    np.testing.assert_allclose(value(erf, x), [math.erf(each) for each in x], rtol=1e-14)


def test_equal_largest_values_share_the_gradient_of_a_maximum():
    _, saved = max_rule.forward(np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]), axis=-1)
    (grad_x,) = max_rule.backward(np.array([1.0, 5.0]), saved)
    np.testing.assert_array_equal(grad_x, [[0.0, 0.5, 0.5], [5.0, 0.0, 0.0]])
