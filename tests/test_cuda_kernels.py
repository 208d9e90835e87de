"""The CUDA kernels against the plain rules: here emulated on a CPU; tests/gpu runs the same tests on a GPU."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from cases import CASES, as_tuple, booleans, case, cotangents, ids, mask
from slow_philox import slow_mask

from minitransformer.kernels import CountedMask, precision
from minitransformer.kernels.cupy import KERNELS, sums
from minitransformer.kernels.cupy.adam import adam
from minitransformer.kernels.cupy.cast import cast_parameter
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.precision import half_dtype
from minitransformer.optim import Adam

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
NAMES = [kernel.name for kernel in KERNELS]
WIDE = (3, 11, 776)
OTHER_SIZES = [
    case("residual_dropout_norm", "a row of 776", WIDE, WIDE, (776,), (776,), keep=booleans(WIDE), p_drop=0.4),
    case("residual_dropout_norm", "a row of 4,104", (2, 4104), (2, 4104), (4104,), (4104,)),
    case("residual_dropout_norm", "more rows than parts", (1030, 9), (1030, 9), (9,), (9,), eps=1e-3),
    case("layer_norm", "a row of 257", (5, 257), (257,), (257,)),
    case("residual_dropout", "a row of 40", (5, 40), (5, 40), keep=booleans((5, 40)), p_drop=0.9),
    case("attention", "70 keys", (2, 3, 5, 8), (2, 3, 70, 8), (2, 3, 70, 16), mask=mask((2, 1, 1, 70))),
    case("attention", "five axes", (2, 2, 3, 5, 4), (2, 2, 3, 6, 4), (2, 2, 3, 6, 4), mask=mask((2, 1, 3, 5, 6))),
    case("attention", "one query", (3, 2, 1, 8), (3, 2, 33, 8), (3, 2, 33, 8)),
    case("feed_forward", "40", (7, 16), (16, 40), (40,), (40, 16), (16,), keep=booleans((7, 40)), p_drop=0.3),
    case("split_heads", "eight values", (2, 5, 64), n_heads=2, widths=(8, 24)),
    case("merge_heads", "eight values", (3, 2, 4, 8)),
    case("linear", "many rows", (1100, 3), (3, 33), (33,)),
    case("positioned_embedding", "long", (40, 48), (30, 48), ids=ids(5, (70, 30)), scale=3.0),
    case("projection_loss", "V of 1,100", (5, 16), (1100, 16), targets=ids(1100, (5,)), label_smoothing=0.1),
]
KERNEL_CASES = [each for each in [*CASES, *OTHER_SIZES] if each.rule.name in NAMES]
CLOSE = {"float32": 3e-6, "float64": 1e-12, "bfloat16": 2e-2, "float16": 3e-3}
PARAMETERS = {"linear": 1, "feed_forward": 1, "layer_norm": 1, "residual_dropout_norm": 2, "projection_loss": 1}
"""From which input on the inputs of a rule are parameters, which are never stored in half precision."""

every_kernel_case = pytest.mark.parametrize("case", KERNEL_CASES, ids=str)


def placed(device, values) -> list:
    """Arrays on the device; everything else as it is."""
    return [device.put(each) if isinstance(each, np.ndarray) else each for each in values]


def with_counted_mask(options: dict, device) -> tuple[dict, dict]:
    """Options for the plain rule, with the mask as an array, and for the kernel, with the same mask to be drawn."""
    there = dict(zip(options, placed(device, options.values()), strict=True))
    if options.get("keep") is None:
        return options, there
    counted = CountedMask((123456789, 4000000000), 7, options["keep"].shape, options["p_drop"])
    return options | {"keep": slow_mask(counted)}, there | {"keep": counted}


def rounded(inputs: tuple, name: str, dtype: str) -> tuple[list, list]:
    """Inputs for the kernel, activations in ``dtype`` and parameters not, and the same values for the rule.

    Parameters are rounded too: a matrix that is not would change the sign of other hidden values before ReLU.
    """
    if dtype in ("float32", "float64"):
        return list(inputs), list(inputs)
    first = 0 if name == "positioned_embedding" else PARAMETERS.get(name, len(inputs))
    half = [x.astype(half_dtype(dtype)) for x in inputs]
    exact = [x.astype(np.float32) for x in half]
    return [*half[:first], *exact[first:]], exact


def check_kernel(case, dtype: str, device, rng, relative_error) -> None:
    """Outputs and gradients of the kernel are those of the rule, and no argument is written to."""
    kernel = device.kernels[case.rule.name]
    inputs, options = case.make("float64" if dtype == "float64" else "float32")
    given, inputs = rounded(inputs, case.rule.name, dtype)
    options, counted = with_counted_mask(options, device)
    expected, saved = case.rule.forward(*inputs, **options)
    there = placed(device, given)
    with precision.computing(dtype if dtype in ("bfloat16", "float16") else "float32"):
        y, kernel_saved = kernel.forward(*there, **counted)
    outputs = as_tuple(y)
    grads_y = cotangents(case.rule, as_tuple(expected), rng)
    cast = [None if g is None else g.astype(out.dtype) for g, out in zip(grads_y, outputs, strict=True)]
    grads = kernel.backward(*placed(device, cast), kernel_saved)
    assert [grad.dtype for grad in grads] == [x.dtype for x in given]
    exact = [None if g is None else g.astype(want.dtype) for g, want in zip(cast, as_tuple(expected), strict=True)]
    wanted = [*as_tuple(expected), *case.rule.backward(*exact, saved)]
    for result, want in zip([*outputs, *grads], wanted, strict=True):
        # What is rounded before ReLU may come to lie on the other side of zero: then a whole value is wrong.
        limit = CLOSE[dtype] * (3 if case.rule.name == "feed_forward" else 1)
        assert relative_error(device.get(result).astype(want.dtype), want) < limit
    for x, after in zip(given, there, strict=True):
        np.testing.assert_array_equal(device.get(after), x)  # the emulation itself looks at const arrays


@pytest.mark.parametrize("dtype", CLOSE)
@every_kernel_case
def test_the_kernel_equals_its_rule(case, dtype, device, rng, relative_error):
    check_kernel(case, dtype, device, rng, relative_error)


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
        expected = as_tuple(case.rule.forward(first, *others, **options)[0])
    given, _ = rounded((first, *others), case.rule.name, dtype)
    there = dict(zip(options, placed(device, options.values()), strict=True))
    found = as_tuple(device.kernels[case.rule.name].forward(*placed(device, given), **there)[0])
    for y, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(device.get(y).astype(np.float32)), np.isnan(want))
        assert np.isnan(want).any()


@every_kernel_case
def test_backward_of_the_kernel_is_the_derivative_of_its_forward(case, device, rng):
    """Central differences of the kernel itself, in float64, along a random direction."""
    inputs, options = case.make()
    _, counted = with_counted_mask(options, device)
    kernel = device.kernels[case.rule.name]

    def outputs_at(x) -> tuple:
        return tuple(map(device.get, as_tuple(kernel.forward(*placed(device, x), **counted)[0])))

    grads_y = cotangents(case.rule, outputs_at(inputs), rng)
    grads = kernel.backward(*placed(device, grads_y), kernel.forward(*placed(device, inputs), **counted)[1])
    step = 1e-5
    for i, (x, grad) in enumerate(zip(inputs, grads, strict=True)):
        direction = rng.standard_normal(x.shape)
        sides = [outputs_at([*inputs[:i], x + sign * step * direction, *inputs[i + 1 :]]) for sign in (1.0, -1.0)]
        ahead, behind = (
            sum(float((g * y).sum()) for g, y in zip(grads_y, side, strict=True) if g is not None) for side in sides
        )
        np.testing.assert_allclose(
            (device.get(grad) * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("case", [each for each in KERNEL_CASES if each.rule.name == "projection_loss"], ids=str)
def test_a_forward_without_gradients_gives_the_same_losses(case, device):
    inputs, options = case.make()
    there = dict(zip(options, placed(device, options.values()), strict=True))
    losses = device.kernels["projection_loss"].inference_forward(*placed(device, inputs), **there)
    wanted = case.rule.forward(*inputs, **options)[0]
    np.testing.assert_allclose([float(loss) for loss in losses], [float(loss) for loss in wanted], rtol=1e-12)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_halves_are_rounded_to_the_nearest_and_to_even(precision, device, rng):
    half = half_dtype(precision)
    neighbours = np.arange(0x3F80, 0x3FC0, dtype=np.uint16).view(half).astype(np.float32)  # ties lie between them
    ties = (neighbours[1:] + neighbours[:-1]) / 2
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 65504.0, 65519.0, 65520.0, 3.39e38, -6e-8]
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


@pytest.mark.parametrize("elements", [1, 9, 20, 36, 54])
def test_losses_and_gradients_do_not_depend_on_the_chunk(elements, device, monkeypatch, rng, relative_error):
    kernel = device.kernels["projection_loss"]
    monkeypatch.setattr(sys.modules[kernel.forward.__module__], "CHUNK_ELEMENTS", elements)
    case = next(each for each in CASES if str(each) == "projection_loss: smoothed")
    check_kernel(case, "float64", device, rng, relative_error)
    check_kernel(case, "bfloat16", device, rng, relative_error)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (31, 32), (33, 31), (1025, 65), (2048, 3)])
def test_rows_are_added_up(rows, width, device, rng, relative_error):
    x = rng.standard_normal((rows, width))
    assert relative_error(device.get(sums.sum_rows(device.put(x))), x.sum(axis=0)) < 1e-12


@pytest.mark.parametrize("size", [1, 255, 256, 257, 5000])
def test_squares_are_added_up_in_double_precision(size, device, rng, monkeypatch):
    monkeypatch.setattr(sums, "MOST_BLOCKS", 7)
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
        numbers = {"beta1": 0.9, "beta2": 0.98, "eps": 1e-9}
        correction = 1.0 / math.sqrt(1.0 - 0.98**step)
        adam(w, m, v, grad, step_size=0.01 / (1 - 0.9**step), inv_sqrt_correction=correction, **numbers)
        for ours, want in ((w, Vectors.data), (m, plain.m), (v, plain.v)):
            assert relative_error(device.get(ours), want) < CLOSE[dtype]


@pytest.mark.parametrize("shape", [(1,), (8,), (3, 7), (2, 3, 24), (5, 1)])
@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.999])
def test_the_mask_that_is_shown_is_what_philox_draws(shape, p_drop, device):
    mask = CountedMask((17, 2**32 - 5), 3, shape, p_drop)
    np.testing.assert_array_equal(device.get(mask.array(device.xp)), slow_mask(mask))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("stack", [(), (1,), (3,), (2, 3)])
def test_products_are_products(stack, transpose_a, transpose_b, dtype, device, rng, relative_error):
    kind = half_dtype(dtype) if dtype in ("bfloat16", "float16") else np.dtype(dtype)
    a = rng.standard_normal((*stack, *((4, 5) if transpose_a else (5, 4)))).astype(kind)
    b = rng.standard_normal((*stack, *((6, 4) if transpose_b else (4, 6)))).astype(kind)
    old = rng.standard_normal((*stack, 5, 6)).astype(np.float64 if dtype == "float64" else np.float32)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    wanted = (a64.swapaxes(-1, -2) if transpose_a else a64) @ (b64.swapaxes(-1, -2) if transpose_b else b64)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    y = device.get(matmul(device.put(a), device.put(b), **flags))
    assert y.dtype == kind and relative_error(y.astype(np.float64), wanted) < CLOSE[dtype]
    out = device.put(old.copy())
    matmul(device.put(a), device.put(b), out=out, add=True, alpha=0.5, **flags)
    assert relative_error(device.get(out), old + 0.5 * wanted) < 1e-6


def test_products_of_slices_and_turned_arrays_are_products(device, rng, relative_error):
    cache = rng.standard_normal((2, 3, 9, 4))
    there = device.put(cache)
    for view in (lambda x: x[:, :, :5], lambda x: x.swapaxes(1, 2), lambda x: x[:, :, ::2], lambda x: x[:1]):
        y = matmul(view(there), view(there), transpose_b=True)
        assert relative_error(device.get(y), view(cache) @ view(cache).swapaxes(-1, -2)) < 1e-12
