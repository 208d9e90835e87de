"""The CUDA kernels against the readable pairs, on a CPU: the code that a GPU runs, but for launches and cuBLAS."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from cases import CASES, as_tuple, booleans, case, cotangents, ids, mask
from cuda_on_cpu import emulated, kernels
from slow_philox import slow_mask

from minitransformer.kernels import CountedMask, precision
from minitransformer.kernels.cupy import TWINS, adam, sums
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.precision import half_dtype
from minitransformer.ops.registry import RULES
from minitransformer.optim import Adam

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
NAMES = [twin.name for twin in TWINS]
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
    case("projection_loss", "1,100 words", (5, 16), (1100, 16), targets=ids(1100, (5,)), label_smoothing=0.1),
]
TWIN_CASES = [each for each in [*CASES, *OTHER_SIZES] if each.rule.name in NAMES]
CLOSE = {"float32": 3e-6, "float64": 1e-12, "bfloat16": 2e-2, "float16": 3e-3}
PARAMETERS = {"linear": 1, "feed_forward": 1, "layer_norm": 1, "residual_dropout_norm": 2, "projection_loss": 1}
"""From which input on the inputs of a rule are parameters, which are never stored in halves."""


@pytest.fixture
def twins(monkeypatch):
    return emulated(monkeypatch)


def with_counted_mask(options: dict) -> tuple[dict, dict]:
    """Options for the readable pair, with the mask as an array, and for the twin, with the same mask to be counted."""
    if options.get("keep") is None:
        return options, options
    counted = CountedMask((123456789, 4000000000), 7, options["keep"].shape, options["p_drop"])
    return options | {"keep": slow_mask(counted)}, options | {"keep": counted}


def rounded(inputs: tuple, name: str, dtype: str) -> tuple[list, list]:
    """Inputs for the twin, activations in ``dtype`` and parameters not, and the same values for the pair."""
    if dtype in ("float32", "float64"):
        return list(inputs), list(inputs)
    first = 0 if name == "positioned_embedding" else PARAMETERS.get(name, len(inputs))
    halves = [x.astype(half_dtype(dtype)) if i < first else x for i, x in enumerate(inputs)]
    return halves, [x.astype(np.float32) for x in halves]


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("case", TWIN_CASES, ids=str)
def test_the_kernel_equals_its_pair(case, dtype, twins, rng, relative_error):
    name = case.rule.name
    inputs, options = case.make("float64" if dtype == "float64" else "float32")
    given, inputs = rounded(inputs, name, dtype)
    options, counted = with_counted_mask(options)
    expected, saved = case.rule.forward(*inputs, **options)
    grads_y = cotangents(case.rule, as_tuple(expected), rng)
    with precision.computing(dtype if dtype in ("bfloat16", "float16") else "float32"):
        y, twin_saved = twins[name].forward(*given, **counted)
    outputs = as_tuple(y)
    grads_given = [None if g is None else g.astype(out.dtype) for g, out in zip(grads_y, outputs, strict=True)]
    grads_y = [
        None if g is None else g.astype(want.dtype) for g, want in zip(grads_given, as_tuple(expected), strict=True)
    ]
    grads = twins[name].backward(*grads_given, twin_saved)
    for x, grad in zip(given, grads, strict=True):
        assert grad.dtype == x.dtype
    wanted = [*as_tuple(expected), *case.rule.backward(*grads_y, saved)]
    for result, want in zip([*outputs, *grads], wanted, strict=True):
        assert relative_error(result.astype(want.dtype), want) < CLOSE[dtype]


@pytest.mark.parametrize("case", [each for each in TWIN_CASES if each.rule.name == "projection_loss"], ids=str)
def test_a_forward_without_gradients_gives_the_same_losses(case, twins):
    inputs, options = case.make()
    losses = twins["projection_loss"].forward_only(*inputs, **options)
    np.testing.assert_allclose(losses, case.rule.forward(*inputs, **options)[0], rtol=1e-12)


@pytest.mark.parametrize("elements", [1, 9, 20, 36, 54])
def test_losses_and_gradients_do_not_depend_on_the_chunk(elements, twins, monkeypatch, relative_error):
    monkeypatch.setattr(sys.modules[twins["projection_loss"].forward.__module__], "CHUNK_ELEMENTS", elements)
    case = next(each for each in CASES if str(each) == "projection_loss: smoothed")
    inputs, options = case.make()
    expected, saved = case.rule.forward(*inputs, **options)
    losses, twin_saved = twins["projection_loss"].forward(*inputs, **options)
    grads = twins["projection_loss"].backward(np.asarray(0.7), None, twin_saved)
    wanted = [*expected, *case.rule.backward(np.asarray(0.7), None, saved)]
    for result, want in zip([*losses, *grads], wanted, strict=True):
        assert relative_error(result, want) < 1e-12


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (31, 32), (33, 31), (1025, 65), (2048, 3)])
def test_rows_are_added_up(rows, width, twins, rng, relative_error):
    x = rng.standard_normal((rows, width))
    assert relative_error(sums.sum_rows(x), x.sum(axis=0)) < 1e-12


def test_adam_in_one_kernel_is_adam(twins, rng, relative_error):
    for dtype in ("float32", "float64"):

        class Vectors:
            data = rng.standard_normal(1000).astype(dtype)
            grad = rng.standard_normal(1000).astype(dtype)

        plain = Adam(Vectors, 0.9, 0.98, 1e-9)
        w, m, v = Vectors.data.copy(), plain.m.copy(), plain.v.copy()
        for step in (1, 2, 3):
            plain.step(0.01)
            numbers = {"beta1": 0.9, "beta2": 0.98, "eps": 1e-9}
            correction = 1.0 / math.sqrt(1.0 - 0.98**step)
            adam(w, m, v, Vectors.grad, step_size=0.01 / (1 - 0.9**step), inv_sqrt_correction=correction, **numbers)
            for ours, want in ((w, Vectors.data), (m, plain.m), (v, plain.v)):
                assert relative_error(ours, want) < CLOSE[dtype]


def test_philox_gives_the_published_numbers():
    """The known answers that come with Random123 for Philox 4x32-10."""
    from slow_philox import philox

    assert [f"{word:08x}" for word in philox([0] * 4, [0] * 2)] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    ones = 2**32 - 1
    assert [f"{word:08x}" for word in philox([ones] * 4, [ones] * 2)] == [
        "408f276d",
        "41c83b0e",
        "a20bc7c6",
        "6d5451fd",
    ]


@pytest.mark.parametrize("shape", [(1,), (8,), (3, 7), (2, 3, 24), (5, 1)])
@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.999])
def test_the_mask_that_is_shown_is_what_philox_draws(shape, p_drop, twins):
    mask = CountedMask((17, 2**32 - 5), 3, shape, p_drop)
    np.testing.assert_array_equal(mask.array(np), slow_mask(mask))


def test_rows_beyond_32_bits_have_draws_of_their_own():
    """No array of the tests is that large: the counter's second word for rows is looked at by itself."""
    source = kernels.source_of("dropout")
    assert source.count("(unsigned int)((unsigned long long)row >> 32)") == 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("stack", [(), (1,), (3,), (2, 3)])
def test_products_are_products(stack, transpose_a, transpose_b, dtype, twins, rng, relative_error):
    half = dtype in ("bfloat16", "float16")
    kind = half_dtype(dtype) if half else np.dtype(dtype)
    a = rng.standard_normal((*stack, *((4, 5) if transpose_a else (5, 4)))).astype(kind)
    b = rng.standard_normal((*stack, *((6, 4) if transpose_b else (4, 6)))).astype(kind)
    old = rng.standard_normal((*stack, 5, 6)).astype(np.float64 if dtype == "float64" else np.float32)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    wanted = (a64.swapaxes(-1, -2) if transpose_a else a64) @ (b64.swapaxes(-1, -2) if transpose_b else b64)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    y = matmul(a, b, **flags)
    assert y.dtype == kind and relative_error(y.astype(np.float64), wanted) < CLOSE[dtype]
    out = old.copy()
    matmul(a, b, out=out, add=True, alpha=0.5, **flags)
    assert relative_error(out, old + 0.5 * wanted) < 1e-6


def test_products_read_slices_of_a_cache_where_they_lie(twins, rng, relative_error, monkeypatch):
    cache = rng.standard_normal((2, 3, 9, 4))
    queries, keys = rng.standard_normal((2, 3, 1, 4)), cache[:, :, :5]
    copies = []
    monkeypatch.setattr(np, "ascontiguousarray", lambda x: copies.append(x) or x.copy())
    y = matmul(queries, keys, transpose_b=True)
    assert copies == [] and relative_error(y, queries @ keys.swapaxes(-1, -2)) < 1e-12
    turned = cache.swapaxes(1, 2)
    y = matmul(turned, turned, transpose_b=True)
    assert copies and relative_error(y, turned @ turned.swapaxes(-1, -2)) < 1e-12


def test_every_twin_has_a_rule_of_its_name_and_measures():
    assert {twin.name: twin.measures for twin in TWINS} == {name: RULES[name].measures for name in NAMES}


def test_every_kernel_of_every_file_is_launched_here(twins, monkeypatch, rng, relative_error):
    started = set()

    def recording(file, kernel, dtype, names):
        started.add((file, kernel))
        return kernels.compiled(file, kernel, dtype, names)

    monkeypatch.setattr("minitransformer.kernels.cupy.launch.compiled", recording)
    for each in TWIN_CASES:
        test_the_kernel_equals_its_pair(each, "bfloat16", twins, rng, relative_error)
    test_adam_in_one_kernel_is_adam(twins, rng, relative_error)
    CountedMask((1, 2), 3, (4, 5), 0.5).array(np)
    files = sorted(path.stem for path in kernels.source_of.__wrapped__.__globals__["FOLDER"].glob("*.cu"))
    assert started == {(file, kernel) for file in files for kernel in kernels.parameters_of(file)}
