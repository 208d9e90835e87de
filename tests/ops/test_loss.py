"""Both ends of the model: embedding, projection, label-smoothed loss. Definitions with loops, limits, padding."""

import numpy as np
import pytest
import slow_versions
from cases import value

from minitransformer.ops.cross_entropy import cross_entropy
from minitransformer.ops.embedding import embedding
from minitransformer.ops.linear import linear
from minitransformer.ops.projection_loss import projection_loss


def test_the_gradients_of_a_repeated_id_are_added(rng):
    ids, grad_y = np.array([[2, 0, 2], [2, 5, 0]]), rng.standard_normal((2, 3, 4))
    y, saved = embedding.forward(rng.standard_normal((7, 4)), ids=ids, scale=2.0)
    (grad_table,) = embedding.backward(grad_y, saved)
    expected = np.zeros((7, 4))
    for position in np.ndindex(ids.shape):
        expected[ids[position]] += 2.0 * grad_y[position]
    np.testing.assert_allclose(grad_table, expected, rtol=1e-14)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("pad_id", [0, 4])
def test_the_smoothed_loss_equals_its_definition_written_with_loops(label_smoothing, pad_id, rng):
    logits, targets = rng.standard_normal((8, 9)), np.array([3, 0, 4, 8, 0, 1, 4, 3])
    loss, nll = value(cross_entropy, logits, targets=targets, label_smoothing=label_smoothing, pad_id=pad_id)
    expected = slow_versions.smoothed_loss(logits, targets, label_smoothing, pad_id)
    np.testing.assert_allclose(loss, expected, rtol=1e-13)
    np.testing.assert_allclose(nll, slow_versions.smoothed_loss(logits, targets, 0.0, pad_id), rtol=1e-13)


def test_the_smallest_smoothed_loss_is_the_entropy_of_the_smoothed_target(rng):
    eps, targets = 0.1, np.array([3, 8, 1])
    q = (1.0 - eps) * np.eye(9)[targets] + eps / 9
    (loss, _), saved = cross_entropy.forward(np.log(q), targets=targets, label_smoothing=eps)
    assert loss == pytest.approx(3 * slow_versions.entropy_of_smoothed_target(9, eps), rel=1e-13)
    (grad_logits,) = cross_entropy.backward(np.float64(1.0), None, saved)
    np.testing.assert_allclose(grad_logits, 0.0, atol=1e-15)
    elsewhere = np.log(q) + 0.01 * rng.standard_normal(q.shape)
    assert value(cross_entropy, elsewhere, targets=targets, label_smoothing=eps)[0] > loss


def test_nll_does_not_depend_on_the_smoothing(rng):
    logits, targets = rng.standard_normal((6, 9)), np.array([3, 0, 8, 0, 1, 3])
    measured = [value(cross_entropy, logits, targets=targets, label_smoothing=eps)[1] for eps in (0.0, 0.1, 0.9)]
    assert measured[0] == measured[1] == measured[2]


def test_padding_contributes_nothing_to_loss_or_gradient(rng):
    logits, targets = rng.standard_normal((6, 9)), np.array([3, 5, 8, 2, 1, 3])
    padded = np.insert(logits, [1, 4, 6], 50.0 * rng.standard_normal((3, 9)), axis=0)
    padded_targets = np.insert(targets, [1, 4, 6], 0)
    losses, saved = cross_entropy.forward(logits, targets=targets, label_smoothing=0.1)
    padded_losses, padded_saved = cross_entropy.forward(padded, targets=padded_targets, label_smoothing=0.1)
    np.testing.assert_allclose(padded_losses, losses, rtol=1e-14)
    (grad,), (padded_grad,) = (cross_entropy.backward(np.float64(0.7), None, each) for each in (saved, padded_saved))
    np.testing.assert_allclose(padded_grad[padded_targets != 0], grad, rtol=1e-14)
    np.testing.assert_array_equal(padded_grad[padded_targets == 0], 0.0)


def test_projection_loss_is_projection_then_loss(rng):
    x, table, targets = rng.standard_normal((6, 4)), rng.standard_normal((9, 4)), np.array([3, 0, 8, 0, 1, 3])
    composed = value(cross_entropy, value(linear, x, table.T), targets=targets, label_smoothing=0.1)
    np.testing.assert_allclose(value(projection_loss, x, table, targets=targets, label_smoothing=0.1), composed)
