"""Matrix products of the kernels on NumPy: by NumPy's BLAS, or by a library that is installed and faster."""

import gc

import numpy as np
import pytest
from cases import CASES, outputs_and_gradients
from searches import random_sources, sharp_model
from small_models import gradient, random_batch, small_model, train

from minitransformer.blas import blas_threads, lend_blas_threads, limited_blas_threads
from minitransformer.generation import beam_search
from minitransformer.kernels.numpy import gemm, table_in_force, use_table
from minitransformer.kernels.numpy.linear import feed_forward, linear
from minitransformer.kernels.numpy.product_table import FEW_ROWS
from minitransformer.workers import Workers

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
@pytest.mark.parametrize("stack", [(), (3,), (2, 4)], ids=str)
def test_products_by_a_library_are_those_of_numpy_however_factors_lie(dtype, stack, library, rng, relative_error):
    for _ in range(40):
        n, k, m = rng.integers(1, 50, 3)
        a, b = random_factors(rng, dtype, n, k, m, stack)
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


@both_dtypes
def test_a_packed_matrix_multiplies_any_number_of_rows(dtype, onemkl, rng, relative_error):
    for transpose in (False, True):
        weight = rng.standard_normal((33, 70)).astype(dtype)
        gemm.freeze(weight)
        for n in (1, 2, FEW_ROWS, 100):
            a = rng.standard_normal((n, 70 if transpose else 33)).astype(dtype)
            wanted = a @ (weight.T if transpose else weight)
            assert relative_error(gemm.packed_matmul(a, weight, transpose=transpose), wanted) < CLOSE[dtype]


@both_dtypes
def test_a_library_gives_the_same_bits_wherever_arrays_begin_in_memory(dtype, library, rng):
    a, b = rng.standard_normal((300, 70)).astype(dtype), rng.standard_normal((70, 130)).astype(dtype)

    def moved(x, offset):
        memory = np.empty(x.size + offset, dtype)[offset:].reshape(x.shape)
        memory[...] = x
        return memory

    results = {gemm.matmul(moved(a, i), moved(b, j)).tobytes() for i in range(4) for j in range(4)}
    assert len(results) == 1


def test_what_a_library_cannot_form_numpy_does(library, rng):
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5))
    np.testing.assert_array_equal(gemm.matmul(a, b), a @ b)  # broadcast
    np.testing.assert_array_equal(gemm.matmul(a[0], np.ones(4)), a[0] @ np.ones(4))  # a vector
    assert gemm.matmul(a[0].astype(np.float32), b).dtype == np.float64
    assert gemm.matmul(a[0][:, :0], b[:0]).tolist() == [[0.0] * 5] * 3
    with pytest.raises(ValueError, match="matmul"):
        gemm.matmul(a[0], b[:3])


@both_dtypes
def test_by_numpy_a_product_has_the_bits_of_the_operator(dtype, unset, rng):
    use_table({})
    for stack in ((), (2, 3)):
        a, b = random_factors(rng, dtype, 20, 30, 40, stack)
        start = rng.standard_normal((*stack, 20, 40)).astype(dtype)
        np.testing.assert_array_equal(gemm.matmul(a, b), a @ b)
        np.testing.assert_array_equal(gemm.matmul(a, b.swapaxes(-1, -2), transpose_b=True, out=start.copy()), a @ b)
        np.testing.assert_array_equal(gemm.matmul(a, b, out=start.copy(), add=True), start + a @ b)


@pytest.mark.parametrize("case", PRODUCT_CASES, ids=str)
@both_dtypes
def test_kernels_of_products_agree_with_the_plain_rules(case, dtype, library, rng, relative_error):
    inputs, options = case.make(dtype)
    expected, grads_y = outputs_and_gradients(case.rule, inputs, options, rng)
    kernel = KERNELS_OF_PRODUCTS[case.rule.name]
    found, _ = outputs_and_gradients(kernel, inputs, options, rng, grads_y)
    for result, wanted in zip(found, expected, strict=True):
        assert result.dtype == dtype and relative_error(result, wanted) < CLOSE[dtype] * 10


@pytest.mark.parametrize("case", PRODUCT_CASES, ids=str)
@both_dtypes
def test_by_numpy_kernels_of_products_have_the_bits_of_the_plain_rules(case, dtype, unset, rng):
    use_table({})
    inputs, options = case.make(dtype)
    expected, grads_y = outputs_and_gradients(case.rule, inputs, options, rng)
    found, _ = outputs_and_gradients(KERNELS_OF_PRODUCTS[case.rule.name], inputs, options, rng, grads_y)
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_gradients_of_a_model_by_a_library_are_those_by_numpy(library, rng, relative_error):
    model, batch = small_model(rng), random_batch(rng)
    found = gradient(model, batch)
    use_table({})
    assert relative_error(found, gradient(model, batch)) < 1e-12


@pytest.mark.parametrize("workers", [1, 2])
def test_training_by_a_library_repeats_to_the_bit_and_agrees_with_numpy(workers, library, unset, rng, relative_error):
    batches, results = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))], []
    matmul, products = library.matmul, []
    unset.setattr(library, "matmul", lambda *factors: products.append(0) or matmul(*factors))
    for table in [table_in_force()] * 2 + [{}]:
        use_table(table)
        model = small_model(np.random.default_rng(5), p_drop=0.1)
        train(model, batches, 8, Workers(workers), warmup_steps=20)
        results.append(model.parameters.data.copy())
    np.testing.assert_array_equal(results[0], results[1])
    assert products and relative_error(results[0], results[2]) < 1e-9


def test_only_one_of_two_libraries_has_threads(library):
    all_threads, table = blas_threads(), table_in_force()
    use_table({})
    assert blas_threads() == all_threads
    with limited_blas_threads(1):
        use_table(table)
        assert blas_threads() == 1
    assert blas_threads() == all_threads
    lend_blas_threads(False)
    assert blas_threads() == all_threads


# Packed weights


def test_a_frozen_model_generates_the_same_from_packed_weights(onemkl, relative_error):
    model, src, table = sharp_model(3), random_sources(3), table_in_force()
    use_table({})
    wanted = beam_search(model, src, beam_size=4)
    use_table(table)
    model.parameters.freeze()
    found = beam_search(model, src, beam_size=4)
    assert [[h.ids for h in hs] for hs in found] == [[h.ids for h in hs] for hs in wanted]


def test_each_matrix_of_a_frozen_model_is_packed_once_and_freed_with_it(onemkl, monkeypatch):
    packed, pack = [], onemkl.pack
    monkeypatch.setattr(onemkl, "pack", lambda b: packed.append(b.shape) or pack(b))
    model, src = sharp_model(3), random_sources(3)
    beam_search(model, src, beam_size=2)
    assert packed == []  # it may still be trained
    model.parameters.freeze()
    beam_search(model, src, beam_size=2)
    once = len(packed)
    beam_search(model, src, beam_size=2)
    assert len(packed) == once == sum(model.parameters[name].ndim == 2 for name in model.parameters.names)
    assert gemm.packed_bytes() > 0
    del model
    gc.collect()
    assert gemm.packed_bytes() == 0


def test_a_frozen_model_cannot_be_trained(rng):
    model = small_model(rng)
    model.parameters.freeze()
    with pytest.raises(ValueError, match="read-only"):
        train(model, [random_batch(rng)])
