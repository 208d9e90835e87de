"""Adam, the schedule of eq. 3 and clipping: definitions, limits, PyTorch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer import kernels, workers
from minitransformer.config import TrainingConfig
from minitransformer.optim import Adam, clip_gradient_norm, learning_rate, scheduled_rate


def vectors(data: np.ndarray) -> SimpleNamespace:
    """What Adam needs of a model's parameters."""
    return SimpleNamespace(data=data, grad=np.zeros_like(data))


@pytest.mark.parametrize(("beta1", "beta2"), [(0.8, 0.95), (0.3, 0.4)])
def test_adam_equals_the_algorithm_written_for_scalars(beta1, beta2, rng, monkeypatch):
    monkeypatch.setattr(workers, "BLOCK_ELEMENTS", 2)  # blocks that do not divide the vector
    eps, size = 1e-3, 5
    parameters = vectors(rng.standard_normal(size))
    optimizer = Adam(parameters, beta1, beta2, eps)
    weights, means, squares = parameters.data.tolist(), [0.0] * size, [0.0] * size
    for step in range(1, 20):
        rate = 0.1 / step
        parameters.grad[:] = rng.standard_normal(size)
        optimizer.step(rate)
        for i, g in enumerate(parameters.grad.tolist()):
            means[i] = beta1 * means[i] + (1 - beta1) * g
            squares[i] = beta2 * squares[i] + (1 - beta2) * g * g
            corrected_mean, corrected_square = means[i] / (1 - beta1**step), squares[i] / (1 - beta2**step)
            weights[i] -= rate * corrected_mean / (math.sqrt(corrected_square) + eps)
    np.testing.assert_allclose(parameters.data, weights, rtol=1e-12)
    np.testing.assert_allclose(optimizer.m, means, rtol=1e-12)
    np.testing.assert_allclose(optimizer.v, squares, rtol=1e-12)
    assert optimizer.step_count == 19


def test_a_fused_kernel_of_adam_is_given_all_that_the_step_needs(rng, monkeypatch):
    """The kernels of GPUs are called so; this one is the algorithm on whole vectors."""

    def fused(w, m, v, grad, *, beta1, beta2, eps, step_size, inv_sqrt_correction):
        m[:] = beta1 * m + (1 - beta1) * grad
        v[:] = beta2 * v + (1 - beta2) * grad**2
        w -= step_size * m / (np.sqrt(v) * inv_sqrt_correction + eps)

    start, grads = rng.standard_normal(7), rng.standard_normal((5, 7))
    plain, by_kernel = (Adam(vectors(start.copy()), 0.8, 0.95, 1e-3) for _ in range(2))
    for step, grad in enumerate(grads, start=1):
        plain.parameters.grad[:] = by_kernel.parameters.grad[:] = grad
        plain.step(0.1 / step)
        with monkeypatch.context() as patch:
            patch.setitem(kernels.FUNCTIONS, ("adam", "numpy"), fused)
            by_kernel.step(0.1 / step)
    np.testing.assert_allclose(by_kernel.parameters.data, plain.parameters.data, rtol=1e-12)


def test_the_defaults_of_adam_and_warmup_are_those_of_the_paper():
    adam = Adam(vectors(np.zeros(1)))
    assert (adam.beta1, adam.beta2, adam.eps) == (0.9, 0.98, 1e-9)
    assert learning_rate(7, 512) == learning_rate(7, 512, 4000)


@pytest.mark.parity
def test_adam_equals_pytorch(rng, torch, relative_error):
    size = 2 * workers.BLOCK_ELEMENTS + 7
    parameters = vectors(rng.standard_normal(size))
    leaf = torch.tensor(parameters.data.copy(), requires_grad=True)
    ours, theirs = Adam(parameters, 0.9, 0.98, 1e-9), torch.optim.Adam([leaf], betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 11):
        parameters.grad[:] = rng.standard_normal(size) * 10.0 ** rng.integers(-8, 1, size)
        leaf.grad = torch.tensor(parameters.grad)
        theirs.param_groups[0]["lr"] = rate = 0.1 / step
        ours.step(rate)
        theirs.step()
    assert relative_error(parameters.data, leaf.detach()) < 1e-13


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_works_in_place_and_in_the_dtype_of_the_parameters(dtype):
    parameters = vectors(np.ones(5, dtype))
    data, optimizer = parameters.data, Adam(parameters)
    parameters.grad[:] = 1.0
    optimizer.step(0.1)
    assert parameters.data is data and {data.dtype, optimizer.m.dtype, optimizer.v.dtype} == {np.dtype(dtype)}
    np.testing.assert_array_equal(parameters.grad, 1.0)


def test_the_learning_rate_has_the_values_of_equation_3():
    """Worked out by hand for d_model 512 and 4,000 warm-up steps: 1 / (16 sqrt(2)) * min(...)."""
    assert learning_rate(4000, 512, 4000) == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-14)
    assert learning_rate(1, 512, 4000) == pytest.approx(1 / math.sqrt(512 * 4000) / 4000, rel=1e-14)
    assert learning_rate(1000, 512, 4000) == pytest.approx(1.746928e-4, rel=1e-6)
    assert learning_rate(16_000, 512, 4000) == pytest.approx(3.493856e-4, rel=1e-6)
    assert learning_rate(100_000, 512, 4000) == pytest.approx(1.397542e-4, rel=1e-6)


def test_the_learning_rate_rises_linearly_then_decays_with_the_square_root():
    rates = {step: learning_rate(step, 64, 50) for step in range(1, 401)}
    np.testing.assert_allclose([rates[step] / rates[1] for step in range(1, 51)], range(1, 51), rtol=1e-13)
    assert rates[100] / rates[400] == pytest.approx(2.0, rel=1e-13)


FACTOR, HIGHEST = {"lr_scale": 0.3}, {"learning_rate": 0.002}


@pytest.mark.parametrize("settings", [{}, FACTOR, HIGHEST, FACTOR | HIGHEST], ids=str)
@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
def test_a_run_follows_its_schedule_from_its_highest_rate(settings, schedule):
    """Up to the warm-up's end both are eq. 3's, to a factor; then the one falls as it does, the other stays."""
    config = TrainingConfig(warmup_steps=40, schedule=schedule, **settings)
    rates = np.array([scheduled_rate(update, 64, config) for update in range(1, 201)])
    shape = np.array([learning_rate(update, 64, 40) for update in range(1, 201)])
    shape[40:] = shape[40:] if schedule == "inverse_sqrt" else shape[39]
    highest = settings.get("lr_scale", 1.0) * settings.get("learning_rate", shape[39])
    np.testing.assert_allclose(rates, shape * highest / shape[39], rtol=1e-12)
    if schedule == "inverse_sqrt" and not settings:
        np.testing.assert_array_equal(rates, shape)


def test_steps_are_counted_from_one_and_one_at_least_is_of_warm_up():
    for step, warmup_steps in ((0, 4000), (1, 0)):
        with pytest.raises(ValueError, match=f"must be at least 1, got {step} and {warmup_steps}"):
            learning_rate(step, 512, warmup_steps)


@pytest.fixture(params=["on the host", "on the device"])
def clipping(request, monkeypatch):
    """Both ways of clipping: the second, without a decision on the host, is what a library with a kernel takes."""
    if request.param == "on the device":
        monkeypatch.setitem(kernels.FUNCTIONS, ("sum_of_squares", "numpy"), lambda grad: grad @ grad)


@pytest.mark.parametrize("max_norm", [0.5, 2.0])
def test_clipping_scales_a_large_gradient_and_keeps_its_direction(clipping, max_norm, rng):
    grad = rng.standard_normal(100)
    before = grad.copy()
    norm = clip_gradient_norm(grad, max_norm)
    assert norm == pytest.approx(math.sqrt((before**2).sum()), rel=1e-13)
    np.testing.assert_allclose(grad, before * max_norm / norm, rtol=1e-13)


@pytest.mark.parametrize("max_norm", [5.0, 100.0, 0.0])
def test_clipping_leaves_a_small_gradient_and_zero_means_never(clipping, max_norm):
    grad = np.array([3.0, -4.0])
    assert clip_gradient_norm(grad, max_norm) == 5.0
    np.testing.assert_array_equal(grad, [3.0, -4.0])
