"""Matrix products of the kernels on NumPy, and the threads of BLAS."""

import os

import numpy as np
import pytest
from cases import CASES, outputs_and_gradients
from small_models import random_batch, small_model, train
from systems import in_new_process

from minitransformer import workers
from minitransformer.kernels.numpy import gemm
from minitransformer.kernels.numpy.linear import feed_forward, linear

CLOSE = {np.float32: 1e-5, np.float64: 1e-13}
KERNELS_OF_PRODUCTS = {kernel.name: kernel for kernel in (linear, feed_forward)}
PRODUCT_CASES = [case for case in CASES if case.rule.name in KERNELS_OF_PRODUCTS]
both_dtypes = pytest.mark.parametrize("dtype", CLOSE)


def random_factors(rng, dtype, n: int, k: int, m: int, stack: tuple[int, ...] = ()):
    """Factors that lie in memory in many ways: transposed, in wider rows, every other row, heads side by side."""

    def draw(rows: int, columns: int) -> np.ndarray:
        shape = (*stack, rows, columns)
        way = rng.integers(5)
        if way == 0:
            return rng.standard_normal((*stack, columns, rows)).astype(dtype).swapaxes(-1, -2)
        if way == 1:
            return rng.standard_normal((*stack, rows, columns + 3)).astype(dtype)[..., 2:-1]
        if way == 2:
            return rng.standard_normal((*stack, 2 * rows, columns)).astype(dtype)[..., ::2, :]
        if way == 3 and stack:
            return np.moveaxis(rng.standard_normal((stack[0], rows, *stack[1:], columns)).astype(dtype), 1, -2)
        return rng.standard_normal(shape).astype(dtype) if way == 4 else draw(rows, columns)

    return draw(n, k), draw(k, m)


@both_dtypes
def test_products_below_the_limit_have_the_bits_of_the_operator(dtype, rng):
    for stack in ((), (2, 3)):
        a, b = random_factors(rng, dtype, 20, 30, 40, stack)
        start = rng.standard_normal((*stack, 20, 40)).astype(dtype)
        np.testing.assert_array_equal(gemm.matmul(a, b), a @ b)
        np.testing.assert_array_equal(gemm.matmul(a, b.swapaxes(-1, -2), transpose_b=True, out=start.copy()), a @ b)
        np.testing.assert_array_equal(gemm.matmul(a, b, out=start.copy(), add=True), start + a @ b)


@both_dtypes
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_products_by_panels_are_those_of_numpy_however_factors_lie(dtype, n_threads, rng, relative_error, monkeypatch):
    monkeypatch.setattr(gemm, "MANY", 0)
    monkeypatch.setattr(workers, "product_threads", lambda: n_threads)
    for _ in range(40):
        n, k, m = rng.integers(1, 50, 3)
        a, b = random_factors(rng, dtype, n, k, m)
        transposed = dict(transpose_a=bool(rng.integers(2)), transpose_b=bool(rng.integers(2)))
        left, right = (x.swapaxes(-1, -2) if each else x for x, each in zip((a, b), transposed.values(), strict=True))
        product = a.astype(np.float64) @ b.astype(np.float64)
        start = rng.standard_normal(product.shape).astype(dtype)
        assert relative_error(gemm.matmul(left, right, **transposed), product) < CLOSE[dtype]
        out = start.copy()
        assert gemm.matmul(left, right, out=out, **transposed) is out
        assert relative_error(out, product) < CLOSE[dtype]
        out = start.copy()
        gemm.matmul(left, right, out=out, add=True, **transposed)
        assert relative_error(out, start + product) < CLOSE[dtype]


@pytest.mark.parametrize("case", PRODUCT_CASES, ids=str)
@both_dtypes
def test_kernels_of_products_have_the_bits_of_the_plain_rules(case, dtype, rng):
    inputs, options = case.make(dtype)
    expected, grads_y = outputs_and_gradients(case.rule, inputs, options, rng)
    found, _ = outputs_and_gradients(KERNELS_OF_PRODUCTS[case.rule.name], inputs, options, rng, grads_y)
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_training_by_panels_is_training_up_to_rounding(rng, relative_error, monkeypatch):
    batches, found = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))], []
    monkeypatch.setattr(workers, "product_threads", lambda: 2)
    for many in (0, 0, gemm.MANY):
        monkeypatch.setattr(gemm, "MANY", many)
        model = small_model(np.random.default_rng(5), p_drop=0.1)
        train(model, batches, 8, warmup_steps=20)
        found.append(model.parameters.data.copy())
    np.testing.assert_array_equal(found[0], found[1])
    assert relative_error(found[0], found[2]) < 1e-9


THREADS = """
from threadpoolctl import threadpool_info
import numpy
at_start = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
from minitransformer.blas import core_count, product_threads
from minitransformer.models import Transformer
after = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
print(max(at_start, default=1), max(after, default=1), product_threads(), core_count())
"""


@pytest.mark.parametrize("given", ["", "1", "2"])
def test_blas_has_one_thread_and_a_large_product_as_many_as_blas_was_given(given, monkeypatch):
    for name in [name for name in os.environ if name.endswith("_NUM_THREADS")]:
        monkeypatch.delenv(name)
    if given:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    had, has, shared, cores = map(int, in_new_process(THREADS).split())
    assert has == 1 and shared == min(had, cores)
