"""Both ends of the model: embedding, projection, label-smoothed loss. Definitions with loops, limits, padding."""

import numpy as np
import pytest
import slow_versions
from cases import value

from minitransformer.ops.cross_entropy import cross_entropy
from minitransformer.ops.linear import linear
from minitransformer.ops.projection_loss import projection_loss


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


def test_a_logit_of_minus_infinity_leaves_the_loss_finite_unless_it_is_smoothed(rng):
    logits, targets = rng.standard_normal((3, 5)), np.array([1, 4, 2])
    logits[:, 3] = -np.inf
    (loss, nll), saved = cross_entropy.forward(logits, targets=targets)
    others = np.delete(logits, 3, axis=1)
    assert loss == nll == pytest.approx(value(cross_entropy, others, targets=np.array([1, 3, 2]))[0], rel=1e-13)
    (grad_logits,) = cross_entropy.backward(np.float64(1.0), None, saved)
    assert np.isfinite(grad_logits).all() and (grad_logits[:, 3] == 0.0).all()
    assert value(cross_entropy, logits, targets=targets, label_smoothing=0.1)[0] == np.inf


def test_projection_loss_is_projection_then_loss(rng):
    x, table, targets = rng.standard_normal((6, 4)), rng.standard_normal((9, 4)), np.array([3, 0, 8, 0, 1, 3])
    composed = value(cross_entropy, value(linear, x, table.T), targets=targets, label_smoothing=0.1)
    np.testing.assert_allclose(value(projection_loss, x, table, targets=targets, label_smoothing=0.1), composed)
