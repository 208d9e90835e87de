"""Calls of cuBLASLt, and what happens where it is missing or refuses: by a stand-in with the same functions."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_cpu.cublas_lt import SEEN, stand_in, watched

from minitransformer.cli import doctor
from minitransformer.errors import BackendError, ShapeError, install_hint
from minitransformer.kernels import CountedMask
from minitransformer.kernels.cupy import gemm_lt
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.gemm_lt import Library, biased_product
from minitransformer.kernels.cupy.libraries import workspace

pytestmark = pytest.mark.cuda  # needs packages of the dev extra
NOT_SUPPORTED, INTERNAL_ERROR = 15, 14


@pytest.fixture
def seen(device):
    """The counters and switches of the stand-in, reset before and after the test."""
    counters = {name: watched(name) for name in SEEN}
    for each in counters.values():
        each.value = 0
    yield counters
    for each in counters.values():
        each.value = 0


@pytest.fixture(params=[True, False], ids=["cuBLASLt", "no cuBLASLt"])
def maybe_without_library(request, device, monkeypatch):
    if not request.param:
        monkeypatch.setattr(gemm_lt, "library", lambda: None)


def drawn(rng, *shapes, dtype=np.float32) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def product(rng, n: int = 6, dtype=np.float32, **options):
    return biased_product(*drawn(rng, (n, 16), (16, 8), (8,), dtype=dtype), **options)


def test_an_algorithm_is_chosen_once_for_each_shape_type_and_epilogue(seen, rng):
    for _ in range(3):
        product(rng)
        product(rng, relu=True)
        product(rng, tf32=True)
        product(rng, dtype=np.float16)
        product(rng, n=7)
    assert (seen["heuristics"].value, seen["products"].value) == (5, 15)


def test_products_run_on_the_current_stream_with_the_workspace_of_the_card(seen, rng, monkeypatch):
    for capability, mebibytes in ((75, 4), (80, 4), (90, 32), (100, 32), (120, 32)):
        monkeypatch.setattr(gemm_lt, "current_device", lambda capability=capability: (0, capability, 1000 + capability))
        product(rng)
        assert seen["last_stream"].value == 1000 + capability
        assert workspace(0, capability, 1000 + capability, gemm_lt.get_array_module()).nbytes == mebibytes << 20


def test_tf32_is_for_float32_factors_alone(seen, rng):
    for dtype, tf32, compute in ((np.float32, False, 68), (np.float32, True, 77), (np.float16, True, 68)):
        product(rng, dtype=dtype, tf32=tf32)
        assert seen["last_compute"].value == compute  # cublasComputeType_t


def test_dropout_leaves_bias_and_relu_to_a_pass_of_their_own(seen, device, rng):
    inputs = drawn(rng, (5, 8), (8, 24), (24,), (24, 8), (8,))
    forward = device.kernels["feed_forward"].forward
    forward(*inputs)
    assert seen["products"].value == 2
    forward(*inputs, keep=CountedMask(np.ones(2, np.uint32), 3, (5, 24), 0.5), p_drop=0.5)
    assert seen["products"].value == 3


@pytest.mark.parametrize("refused", ["refuse_heuristics", "refuse_products"])
def test_unsupported_products_fall_back_and_are_not_asked_for_again(refused, seen, device, rng):
    seen[refused].value = NOT_SUPPORTED
    x, weight, bias = drawn(rng, (6, 16), (16, 8), (8,))
    for _ in range(2):
        y, _ = device.kernels["linear"].forward(x, weight, bias)
        np.testing.assert_allclose(y, x @ weight + bias, rtol=1e-4, atol=1e-5)
    assert seen["heuristics"].value == 1 and seen["products"].value == 0
    assert seen["alive"].value == 0  # nothing is kept for it


def test_a_plan_keeps_its_descriptor_and_three_layouts(seen, rng):
    for _ in range(2):
        product(rng)
    assert seen["alive"].value == 4


def test_a_handle_that_could_not_be_created_is_tried_again(seen, rng):
    seen["refuse_handles"].value = INTERNAL_ERROR
    for _ in range(2):
        with pytest.raises(BackendError, match="^cublasLtCreate: .*INTERNAL_ERROR"):
            product(rng)
    seen["refuse_handles"].value = 0
    assert product(rng) is not None and seen["alive"].value == 4


@pytest.mark.parametrize("length", [7, 9])
@pytest.mark.usefixtures("maybe_without_library")
def test_a_bias_of_the_wrong_length_is_refused_before_a_kernel_reads_it(length, device, rng):
    x, w1, b1, w2, b2 = drawn(rng, (6, 16), (16, 8), (length,), (8, 16), (16,))
    for kernel, inputs in (("linear", (x, w1, b1)), ("feed_forward", (x, w1, b1, w2, b2))):
        with pytest.raises(ShapeError, match=rf"bias must have the shape \(8,\), got \({length},\)"):
            device.kernels[kernel].forward(*inputs)


def test_factors_of_two_types_are_refused(rng):
    a, b = drawn(rng, (6, 16), (16, 8))
    with pytest.raises(ShapeError, match="both factors must have one type, got float32 and float64"):
        matmul(a, b.astype("float64"))


@pytest.mark.parametrize("shapes", [((6, 16), (15, 8)), ((0, 16), (16, 8)), ((6, 16), (16, 0))])
@pytest.mark.usefixtures("maybe_without_library")
def test_factors_that_do_not_fit_or_are_empty_never_reach_a_library(shapes, seen, device, rng):
    with pytest.raises(ShapeError, match="^matmul: (both factors must fit|no axis may be empty)"):
        device.kernels["linear"].forward(*drawn(rng, *shapes, shapes[1][1:]))
    assert seen["heuristics"].value == seen["products"].value == 0


@pytest.mark.parametrize(
    ("refused", "call"), [("refuse_heuristics", "MatmulAlgoGetHeuristic"), ("refuse_products", "Matmul")]
)
def test_a_failed_call_is_reported_in_one_line(refused, call, seen, rng):
    seen[refused].value = INTERNAL_ERROR
    with pytest.raises(BackendError) as caught:
        product(rng)
    wanted = f"cublasLt{call}: the status must be CUBLAS_STATUS_SUCCESS, got CUBLAS_STATUS_INTERNAL_ERROR (14)"
    assert str(caught.value) == wanted
    assert seen["alive"].value == (0 if call == "MatmulAlgoGetHeuristic" else 4)  # a plan may be good for a next time


def without_library(monkeypatch, error: Exception) -> None:
    """CUDA's finder does not find it."""

    def find(name: str):
        raise error

    finder = SimpleNamespace(load_nvidia_dynamic_lib=find)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(pathfinder=finder))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)


def test_a_missing_library_is_looked_for_once(monkeypatch):
    without_library(monkeypatch, RuntimeError("no\nlibcublasLt: No such file: one, two"))
    with pytest.raises(BackendError, match="^cublasLt: it must be possible to load it, got no libcublasLt$"):
        gemm_lt.load()
    found, remark = doctor.CHECKS["cuBLASLt"]()
    assert found == "" and "got no libcublasLt; " in remark and install_hint("cuda13") in remark
    gemm_lt.library.cache_clear()
    try:
        assert gemm_lt.library() is None
        monkeypatch.setattr(gemm_lt, "load", lambda: 1 / 0)
        assert gemm_lt.library() is None
    finally:
        gemm_lt.library.cache_clear()


def test_the_doctor_names_the_version_that_is_used(monkeypatch):
    monkeypatch.setattr(gemm_lt, "load", lambda: Library(stand_in()))
    assert doctor.CHECKS["cuBLASLt"]() == ("13.0.0, adds bias and ReLU within products", "")
