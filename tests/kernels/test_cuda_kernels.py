"""The CUDA kernels against the plain rules: emulated on a CPU, and once more on a GPU where there is one."""

import math
import sys

import numpy as np
import pytest
from cases import CASES, as_tuple, value
from cuda_checks import CLOSE, KERNEL_CASES, NAMES, REAL_SIZES, check_kernel, placed, rounded
from extras import need
from slow_philox import slow_mask

from minitransformer.kernels import CountedMask
from minitransformer.kernels.cupy import sums
from minitransformer.kernels.cupy.adam import adam
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.projection_loss import _cross_entropy
from minitransformer.kernels.precision import half_dtype
from minitransformer.ops.projection_loss import projection_loss
from minitransformer.ops.registry import RULES
from minitransformer.optim import Adam

pytestmark = [pytest.mark.cuda, pytest.mark.any_device]
every_kernel_case = pytest.mark.parametrize("case", KERNEL_CASES, ids=str)


@pytest.mark.parametrize("dtype", CLOSE)
@every_kernel_case
def test_the_kernel_equals_its_rule(case, dtype, device, rng, relative_error):
    check_kernel(case, dtype, device, rng, relative_error)


def test_every_kernel_and_no_other_rule_has_a_case_of_real_size():
    """They are compared on a GPU alone."""
    assert {case.rule.name for case in REAL_SIZES} == set(NAMES)


def real(name: str, rows: int) -> tuple:
    """Some rows of the inputs of the case of real size, as float64."""
    return next(each for each in REAL_SIZES if str(each) == f"{name}: base").with_rows(rows).make()[0]


def test_the_logits_of_real_size_may_be_rounded(relative_error):
    """Else a correct kernel would fail there, as no kernel can keep more digits than it stores."""
    need("ml_dtypes")
    x, table = real("projection_loss", 100)
    logits = x @ table.T
    exact = value(RULES["softmax"], logits) @ table
    for dtype in map(half_dtype, ("bfloat16", "float16")):
        off = value(RULES["softmax"], logits.astype(dtype).astype(float)) @ table
        assert relative_error(off, exact) < CLOSE[dtype.name] / 2


def test_no_order_of_sums_moves_a_hidden_value_of_real_size_across_zero():
    need("ml_dtypes")
    x, w1, b1, *_ = (each.astype(np.float32) for each in real("feed_forward", 100))
    hidden = x @ w1 + b1
    assert abs(hidden).min() >= 0.5 and 0.4 < (hidden > 0).mean() < 0.6
    np.testing.assert_array_equal(x[:, ::-1] @ w1[::-1] + b1, hidden)
    np.testing.assert_array_equal(hidden - b1, (hidden - b1).astype(half_dtype("bfloat16")).astype(np.float32))


BROKEN = (
    "attention: padding",
    "feed_forward: plain",
    "layer_norm: a batch",
    "projection_loss: plain",
    "linear: with bias",
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", [each for each in KERNEL_CASES if str(each) in BROKEN], ids=str)
def test_nan_stays_nan_where_the_rule_has_nan(case, dtype, device):
    (first, *others), options = case.make("float32")
    first[(0,) * first.ndim] = np.nan
    with np.errstate(all="ignore"):
        expected = as_tuple(value(case.rule, first, *others, **options))
    given, _ = rounded((first, *others), case.rule.name, dtype)
    found = as_tuple(value(device.kernels[case.rule.name], *placed(device, given), **placed(device, options)))
    for y, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(device.get(y).astype(np.float32)), np.isnan(want))
        assert np.isnan(want).any()


@pytest.mark.parametrize("vocab_size", [9, 700])
def test_the_loss_of_huge_logits_is_that_of_their_differences(vocab_size, device, rng):
    x, table = np.full((5, 4), 2.5e8, np.float32), np.ones((vocab_size, 4), np.float32)
    table[rng.integers(0, vocab_size), 0] += 1e-6  # one logit is 256 larger, in every order of sums
    options = {"targets": rng.integers(1, vocab_size, 5), "label_smoothing": 0.1}
    (loss, nll), saved = device.kernels["projection_loss"].forward(
        *placed(device, (x, table)), **placed(device, options)
    )
    grads = device.kernels["projection_loss"].backward(device.put(np.array(1.0, np.float32)), None, saved)
    expected, saved = projection_loss.forward(x, table, **options)
    for found, wanted in zip((loss, nll), expected, strict=True):
        assert float(device.get(found)) == pytest.approx(float(wanted), rel=1e-5)
    wanted_grads = projection_loss.backward(np.array(1.0, np.float32), None, saved)
    for found, wanted, summand in zip(grads, wanted_grads, (table, x), strict=True):
        np.testing.assert_allclose(device.get(found), wanted, rtol=0, atol=1e-5 * summand.max())


@pytest.mark.parametrize("value_there", [np.nan, np.inf, -np.inf, 1e30])
def test_a_masked_key_has_no_influence_whatever_it_holds(value_there, device, rng):
    q, k, v = (rng.standard_normal((2, 3, 5, 4)).astype(np.float32) for _ in range(3))
    mask = rng.random((2, 1, 5, 5)) < 0.7
    mask[..., 2] = False
    kernel = device.kernels["attention"]
    before = device.get(value(kernel, *placed(device, (q, k, v)), mask=device.put(mask)))
    k[..., 2, :] = value_there
    after = device.get(value(kernel, *placed(device, (q, k, v)), mask=device.put(mask)))
    np.testing.assert_array_equal(after, before)
    assert np.isfinite(after).all()


def test_a_group_without_a_finite_logit_adds_nothing_and_hides_no_nan(device, rng):
    """A thread of the kernel has eight logits at a time: here its first eight, and those of the target's neighbor."""
    logits = rng.standard_normal((2, 64)).astype(np.float32)
    logits[:, :16] = -np.inf
    logits[1, 3] = np.nan
    chunk, losses = device.put(logits.copy()), device.put(np.zeros((2, 2)))
    _cross_entropy(chunk, 50, device.put(np.array([17, 17])), losses, 0.0, 0, 1.0)
    p = np.exp(logits[0, :50], dtype=np.float64)
    (loss, nll), of_nan = device.get(losses)
    assert loss == nll == pytest.approx(np.log(p.sum() / p[17]), rel=1e-6) and np.isnan(of_nan).all()
    found = device.get(chunk)
    np.testing.assert_allclose(found[0, :50], p / p.sum() - (np.arange(50) == 17), atol=1e-6)
    np.testing.assert_array_equal(found[:, 50:], logits[:, 50:])


@pytest.mark.parametrize("case", [each for each in KERNEL_CASES if each.rule.name == "projection_loss"], ids=str)
def test_a_forward_without_gradients_gives_the_same_losses(case, device):
    inputs, options = case.make()
    there = placed(device, inputs), placed(device, options)
    losses = device.kernels["projection_loss"].inference_forward(*there[0], **there[1])
    wanted = value(case.rule, *inputs, **options)
    np.testing.assert_allclose([float(loss) for loss in losses], [float(loss) for loss in wanted], rtol=1e-12)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_rounded_to_nearest_ties_to_even(precision, device, rng):
    half = np.dtype(precision)
    neighbors = np.arange(0x3F80, 0x3FC0, dtype=np.uint16).view(half).astype(np.float32)  # ties lie between them
    ties = (neighbors[1:] + neighbors[:-1]) / 2
    # The smallest that is no denormal: those are 0 on a GPU, as CuPy compiles with -ftz=true.
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.2e-38, 65504.0, 65519.0, 65520.0, 3.39e38, -6e-8]
    odd_nans = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    x = np.concatenate(
        [ties, -ties, odd_nans, np.array(special, np.float32), rng.standard_normal(1000).astype(np.float32)]
    )
    with np.errstate(all="ignore"):
        expected = x.astype(half)
    found = device.get(cast_parameter(device.put(x), half))
    is_number = ~np.isnan(x)
    np.testing.assert_array_equal(found.view(np.uint16)[is_number], expected.view(np.uint16)[is_number])
    assert np.isnan(found[~is_number].astype(np.float32)).all()


@pytest.mark.parametrize("parts", [1, 3, 6])
def test_blocks_that_take_rows_in_turn_give_the_gradient_of_a_norm(parts, device, monkeypatch, rng, relative_error):
    kernel = device.kernels["residual_dropout_norm"]
    monkeypatch.setattr(sys.modules[kernel.forward.__module__], "PARTS", parts)
    case = next(each for each in KERNEL_CASES if str(each) == "residual_dropout_norm: many rows")
    check_kernel(case, "float64", device, rng, relative_error)


@pytest.mark.parametrize("size", [1, 256, 1024, 1536, 3072])
def test_losses_and_gradients_do_not_depend_on_the_chunk(size, device, monkeypatch, rng, relative_error):
    kernel = device.kernels["projection_loss"]
    monkeypatch.setattr(sys.modules[kernel.forward.__module__], "MAX_CHUNK_BYTES", size)
    case = next(each for each in CASES if str(each) == "projection_loss: smoothed")
    check_kernel(case, "float64", device, rng, relative_error)
    check_kernel(case, "bfloat16", device, rng, relative_error)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (31, 32), (33, 31), (1025, 65), (2048, 3)])
def test_sum_rows_sums_over_rows(rows, width, device, rng, relative_error):
    x = rng.standard_normal((rows, width))
    assert relative_error(device.get(sums.sum_rows(device.put(x))), x.sum(axis=0)) < 1e-12


@pytest.mark.parametrize("size", [1, 255, 256, 257, 5000])
def test_squares_are_summed_in_double_precision(size, device, rng, monkeypatch):
    monkeypatch.setattr(sums, "MAX_BLOCKS", 7)
    x = rng.standard_normal(size).astype(np.float32)
    total = device.get(sums.sum_of_squares(device.put(x)))
    assert float(total) == pytest.approx(float((x.astype(np.float64) ** 2).sum()), rel=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam_in_one_kernel_is_adam(dtype, device, rng, relative_error):
    class Vectors:
        data = rng.standard_normal(1000).astype(dtype)
        grad = rng.standard_normal(1000).astype(dtype)

    plain = Adam(Vectors, 0.9, 0.98, 1e-9)
    w, m, v, grad = placed(device, [Vectors.data.copy(), plain.m.copy(), plain.v.copy(), Vectors.grad])
    for step in (1, 2, 3):
        plain.step(0.01)
        options = {"beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "step_size": 0.01 / (1 - 0.9**step)}
        adam(w, m, v, grad, inv_sqrt_correction=1.0 / math.sqrt(1.0 - 0.98**step), **options)
        for ours, want in ((w, Vectors.data), (m, plain.m), (v, plain.v)):
            assert relative_error(device.get(ours), want) < CLOSE[dtype]


@pytest.mark.parametrize("shape", [(1,), (8,), (3, 7), (2, 3, 24), (5, 1)])
@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.999])
def test_a_mask_as_an_array_is_what_philox_draws(shape, p_drop, device):
    mask = CountedMask(17 - (5 << 32), 3, shape, p_drop)
    np.testing.assert_array_equal(device.get(mask.array(device.xp)), slow_mask(mask))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_are_products(transpose_a, transpose_b, dtype, device, rng, relative_error):
    a = rng.standard_normal((4, 5) if transpose_a else (5, 4)).astype(dtype)
    b = rng.standard_normal((6, 4) if transpose_b else (4, 6)).astype(dtype)
    old = rng.standard_normal((5, 6)).astype(np.float64 if dtype == "float64" else np.float32)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    wanted = (a64.T if transpose_a else a64) @ (b64.T if transpose_b else b64)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    y = device.get(matmul(device.put(a), device.put(b), **flags))
    assert y.dtype == dtype and relative_error(y.astype(np.float64), wanted) < CLOSE[dtype]
    out = device.put(old.copy())
    matmul(device.put(a), device.put(b), out=out, add=True, alpha=0.5, **flags)
    assert relative_error(device.get(out), old + 0.5 * wanted) < 1e-6
