"""The emulation itself: it runs every kernel, and catches faults that a GPU would silently accept."""

import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from cuda_checks import KERNEL_CASES, check_kernel
from cuda_on_cpu import kernels, products
from extras import need
from slow_philox import philox

from minitransformer.errors import ShapeError
from minitransformer.kernels import CountedMask
from minitransformer.kernels.cupy import FUNCTIONS, launch
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.masks import arguments_of, mixed_key
from minitransformer.kernels.cupy.source import FOLDER

pytestmark = pytest.mark.cuda  # needs packages of the dev extra


def test_every_kernel_of_every_file_is_compared_with_something(device, monkeypatch, rng, relative_error):
    started = set()

    def recording(file, kernel, dtype, names):
        started.add((file, kernel))
        return kernels.compile_kernel(file, kernel, dtype, names)

    monkeypatch.setattr(launch, "compile_kernel", recording)
    for each in KERNEL_CASES:
        check_kernel(each, "bfloat16", device, rng, relative_error)
    vectors = [np.ones(3, np.float32) for _ in range(4)]
    FUNCTIONS["adam"](*vectors, beta1=0.9, beta2=0.98, eps=1e-9, step_size=0.1, inv_sqrt_correction=1.0)
    FUNCTIONS["sum_of_squares"](vectors[0])
    CountedMask(mixed_key((1, 2)), 3, (4, 5), 0.5).array(np)
    files = [path.stem for path in FOLDER.glob("*.cu")]
    assert started == {(file, kernel) for file in files for kernel in kernels.parameters_of(file)}


def test_philox_gives_the_published_numbers():
    """The known answers that come with Random123 for Philox 4x32-10."""
    ones = 2**32 - 1
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([ones] * 4, [ones] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_products_read_columns_and_transposed_matrices_where_they_lie(device, rng, monkeypatch):
    x, copies = rng.standard_normal((9, 6)), []
    monkeypatch.setattr(np, "ascontiguousarray", lambda x: copies.append(x) or x.copy())
    for view in (x[:, :4], x[2:].T, x[:, 1:3].T):
        matmul(view, view, transpose_b=True)
    assert copies == []
    matmul(x[:, ::2], x[:, ::2], transpose_a=True)
    assert len(copies) == 2


def test_the_stand_in_of_gemm_ex_has_the_arguments_of_cupys_binding():
    """As the binding itself says; it cannot be imported where cuBLAS is not installed."""
    need("cupy")
    folder = Path(importlib.util.find_spec("cupy_backends").origin).parent / "cuda" / "libs"
    found = re.search(rb"\0?gemmEx\(([^)]*)\)", next(folder.glob("cublas*.so")).read_bytes())[1].decode()
    names = [argument.split()[-1] for argument in found.split(", ")]
    assert list(inspect.signature(products.gemmEx).parameters) == names


BROKEN_KERNELS = {
    "a barrier that half of the threads never reach": "if (threadIdx.x < 16) __syncthreads();",
    "a shuffle of half a warp": "if (threadIdx.x < 16) warp_sum(1);",
    "a write before the array": "x[-1] = 1;",
    "a write behind the array": "x[64] = 1;",
    "two warps that write to one address": "x[0] = threadIdx.x / 32;",
    "no barrier between writing and reading": """
        __shared__ ACC shown[64];
        shown[threadIdx.x] = threadIdx.x;
        x[threadIdx.x] = shown[(threadIdx.x + 32) % 64];""",
    "no barrier before memory is used again": """
        __shared__ ACC shown[64];
        for (int i = 0; i < 2; ++i) {
            shown[threadIdx.x] = warp_sum(i);
            __syncthreads();
            x[threadIdx.x] += shown[(threadIdx.x + 32) % 64];
        }""",
}


@pytest.mark.parametrize("fault", BROKEN_KERNELS)
def test_a_kernel_with_this_fault_is_caught(fault, device, monkeypatch):
    source = kernels.source_of("cast").split("// From the type")[0]
    source += f'\nextern "C" __global__ void faulty(ACC *x) {{ {BROKEN_KERNELS[fault]} }}\n'
    monkeypatch.setattr(kernels, "source_of", lambda name: source)
    for each in (kernels.parameters_of, kernels.library_of, kernels.compile_kernel):
        monkeypatch.setattr(kernels, each.__name__, each.__wrapped__)
    with pytest.raises(AssertionError, match="wait for each other|beside an array|order of the warps"):
        kernels.compile_kernel("faulty", "faulty", "float32", ())((1,), (64,), (np.zeros(64, np.float32),))


def test_arguments_of_the_wrong_kind_or_number_are_caught(device):
    run = kernels.compile_kernel("cast", "cast", "float32", ())
    x, y, null, n = np.zeros(8, np.float32), np.zeros(8, np.float32), np.int64(0), np.int64(8)
    run((1,), (256,), (x, null, y, n, n))
    for wrong in (
        (x, null, y, n),
        (x, null, y, n, 8.0),
        (x, null, y, n, np.float64(8)),
        (x.astype(float), null, y, n, n),
    ):
        with pytest.raises(AssertionError):
            run((1,), (256,), wrong)
    with pytest.raises(ShapeError, match="must be contiguous"):
        launch.launch("cast", "cast", (1,), (256,), (np.zeros((8, 2), np.float32)[:, 0], None, y, 8, True), "float32")


def test_arrays_as_masks_are_refused_by_the_kernels():
    with pytest.raises(ShapeError, match="keep must be a CountedMask on the GPU"):
        arguments_of(np.ones((2, 3), bool), "attention", (2, 3))
    with pytest.raises(ShapeError, match=r"keep must have the shape \(2, 3\), got \(3, 2\)"):
        arguments_of(CountedMask(mixed_key((1, 2)), 3, (3, 2), 0.5), "attention", (2, 3))
