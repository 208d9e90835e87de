"""The emulation itself: it runs every kernel, and what stands in for CuPy and cuBLAS has their names and rules."""

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
from minitransformer.kernels.cupy import FUNCTIONS, gemm, launch
from minitransformer.kernels.cupy.gemm import matmul
from minitransformer.kernels.cupy.masks import arguments_of, mixed_key
from minitransformer.kernels.cupy.projection_loss import chunk_rows, pitch_of
from minitransformer.kernels.cupy.source import FOLDER, source_of

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
    assert started == {(file, kernel) for file in files for kernel in kernels.parameters_in(source_of(file))}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_arrays_may_begin_anywhere_in_one_vector(dtype, device, rng, relative_error):
    """As parameters do: some begin one value after a multiple of 16 bytes, right behind the one before."""
    vector, begin = np.full(1 << 22, 255, np.uint8), 0

    def put(array):
        nonlocal begin
        start = -(-begin // 16) * 16 + array.itemsize * rng.integers(2)
        begin = start + array.nbytes
        view = vector[start:begin].view(array.dtype).reshape(array.shape)
        view[...] = array
        return view

    device.put = put
    for each in KERNEL_CASES:
        begin = 0
        check_kernel(each, dtype, device, rng, relative_error)


EMPTY = {  # the shapes of the inputs, and options
    "layer_norm": (((0, 8), (8,), (8,)), {}),
    "residual_dropout": (((0, 8), (0, 8)), {}),
    "residual_dropout_norm": (((0, 8), (0, 8), (8,), (8,)), {}),
    "embedding": (((5, 8),), {"ids": np.zeros((0, 4), np.int64)}),
    "positioned_embedding": (((5, 8), (4, 8)), {"ids": np.zeros((0, 4), np.int64)}),
    "projection_loss": (((0, 8), (5, 8)), {"targets": np.zeros(0, np.int64)}),
    "linear": (((0, 8), (8, 5), (5,)), {}),
    "feed_forward": (((0, 8), (8, 5), (5,), (5, 8), (8,)), {}),
    "attention": (((0, 1, 3, 8),) * 3, {}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_batch_is_refused_before_a_grid_of_no_blocks(name, device):
    assert EMPTY.keys() == device.kernels.keys()
    shapes, options = EMPTY[name]
    with pytest.raises(ShapeError, match="empty|must be rows"):
        device.kernels[name].forward(*(np.ones(shape, np.float32) for shape in shapes), **options)


def test_philox_gives_the_published_numbers():
    """The known answers that come with Random123 for Philox 4x32-10."""
    ones = 2**32 - 1
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([ones] * 4, [ones] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("p_drop", [1e-5, 0.1, 0.3, 0.999])
def test_the_share_that_a_counted_mask_drops_is_that_asked_for(p_drop):
    _, _, threshold, factor = CountedMask(1, 2, (3, 8), p_drop).arguments
    assert abs(threshold / 65536 - p_drop) <= 1 / 131072 and factor == 1 / (1 - p_drop)


@pytest.mark.parametrize("card", [1 << 30, 24 << 30, 80 << 30])
def test_logits_fill_two_gib_or_a_sixteenth_of_a_smaller_card(card):
    row = 2 * pitch_of(37_000)
    held = row * chunk_rows(37_000, 2, card)
    assert held <= min(2 << 30, card / 16) < held + row and chunk_rows(37_000, 2, row) == 1


def test_tf32_is_asked_for_where_factors_are_float32(device, monkeypatch):
    asked = []
    monkeypatch.setattr(gemm, "cublas", lambda: (lambda *arguments: asked.append(arguments[-2]), lambda: 0))
    for dtype in ("float32", "float64", "float16"):
        for tf32 in (True, False):
            matmul(np.ones((2, 2), dtype), np.ones((2, 2), dtype), tf32=tf32)
    assert asked == [gemm.COMPUTE_TF32, gemm.COMPUTE_FLOAT32, *[gemm.COMPUTE_FLOAT64] * 2, *[gemm.COMPUTE_FLOAT32] * 2]


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


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.int32(-3), np.True_], ids=repr)
def test_a_number_of_numpy_has_the_64_bits_that_a_kernel_reads(number):
    wanted = np.float64 if isinstance(number, np.floating) else np.int64
    found = launch._argument(number)
    assert type(found) is wanted and found == number


def test_arrays_as_masks_are_refused_by_the_kernels():
    with pytest.raises(ShapeError, match="keep must be a CountedMask on the GPU"):
        arguments_of(np.ones((2, 3), bool), "attention", (2, 3))
    with pytest.raises(ShapeError, match=r"keep must have the shape \(2, 3\), got \(3, 2\)"):
        arguments_of(CountedMask(mixed_key((1, 2)), 3, (3, 2), 0.5), "attention", (2, 3))
