"""Products of few rows with matrices that are stored as panels of columns."""

import gc

import numpy as np
import pytest
from searches import random_sources, sharp_model

from minitransformer import workers
from minitransformer.blas import blas_kernels
from minitransformer.generation import beam_search
from minitransformer.kernels.numpy import gemm, panels


@pytest.fixture(autouse=True)
def on_a_processor_with_small_kernels(monkeypatch):
    monkeypatch.setattr(panels, "WITH_SMALL_KERNELS", (blas_kernels(),))


def bytes_of_copies() -> int:
    return sum(copy.nbytes for copies in gemm.cached_copies.values() for copy in copies.values())


def test_panels_multiply_as_the_whole_matrix_does(rng, relative_error):
    for _ in range(60):
        n = rng.integers(2, panels.MOST_ROWS + 1)
        k, m = rng.choice([1, 30, 512, 520, 1024, 1536, 2048]), rng.integers(64, 300)
        a, matrix = rng.standard_normal((n, k), dtype=np.float32), rng.standard_normal((k, m), dtype=np.float32)
        matrix = np.asfortranarray(matrix) if rng.integers(2) else matrix
        wanted = a.astype(np.float64) @ matrix
        found = panels.matmul(a, panels.cut_into_panels(matrix), matrix)
        assert found.shape == (n, m) and relative_error(found, wanted) < 1e-5


@pytest.mark.parametrize("n", [2, 5, 16])
def test_any_number_of_threads_gives_the_same_bits(n, rng, monkeypatch):
    a, matrix = rng.standard_normal((n, 1024), dtype=np.float32), rng.standard_normal((1024, 700), dtype=np.float32)
    monkeypatch.setattr(panels, "MANY", 0)
    results = set()
    for n_threads in (1, 2, 3):
        monkeypatch.setattr(workers, "product_threads", lambda count=n_threads: count)
        results.add(panels.matmul(a, panels.cut_into_panels(matrix), matrix).tobytes())
    assert len(results) == 1


def test_only_matrices_that_cannot_change_are_copied(rng):
    a, weight = rng.standard_normal((4, 512), dtype=np.float32), rng.standard_normal((512, 128), dtype=np.float32)
    assert gemm.packed_matmul(a, weight) is None
    gemm.prepare_for_inference(weight)
    assert gemm.packed_matmul(a, weight) is not None
    assert gemm.packed_matmul(a, weight[:]) is None  # a view: what it is a view of may change
    for n in (1, 100):  # as fast without
        assert gemm.packed_matmul(a[:1].repeat(n, axis=0), weight) is None
    for other in (weight.astype(np.float64), weight[:, :50], np.ones((1031, 128), np.float32)):
        gemm.prepare_for_inference(other)  # no kernel for small matrices; too narrow; a height that has no equal parts
        assert gemm.packed_matmul(np.ones((4, len(other)), other.dtype), other) is None


def test_a_prepared_model_generates_the_same_as_one_that_is_not():
    model, src = sharp_model(3, vocab_size=100, d_model=64, d_ff=128, dtype="float32"), random_sources(3)
    wanted = beam_search(model, src, beam_size=4)
    model.prepare_for_inference()
    before = bytes_of_copies()
    found = beam_search(model, src, beam_size=4)
    table = model.projection.data
    assert bytes_of_copies() - before > table.nbytes
    assert gemm.packed_matmul(np.ones((2, 64), np.float32), table, transpose=True).shape == (2, 100)
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[h.ids for h in each] for each in wanted]
    del model, table
    gc.collect()
    assert bytes_of_copies() == before


def test_a_matrix_that_is_changed_and_prepared_anew_does_not_use_the_old_copies(rng, relative_error):
    a, weight = rng.standard_normal((4, 512), dtype=np.float32), rng.standard_normal((512, 128), dtype=np.float32)
    for _ in range(3):
        gemm.prepare_for_inference(weight)
        assert relative_error(gemm.packed_matmul(a, weight), a @ weight) < 1e-5
        weight.flags.writeable = True
        assert gemm.packed_matmul(a, weight) is None
        weight *= 2.0
        weight.flags.writeable = False
        assert gemm.packed_matmul(a, weight) is None  # only `prepare_for_inference` promises that it will not change
