"""Products with bias and ReLU fused in: by a stand-in for cuBLASLt, and by cuBLASLt on a GPU."""

import numpy as np
import pytest
from cases import CASES
from cuda_checks import CLOSE, check_kernel, placed
from small_models import gradient, random_batch, small_model

from minitransformer.kernels.cupy import gemm_lt
from minitransformer.kernels.cupy.gemm_lt import biased_product
from minitransformer.nn import DropoutMasks

pytestmark = [pytest.mark.cuda, pytest.mark.any_device]
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")


@pytest.fixture(autouse=True)
def library(device):
    """The stand-in, or on a GPU cuBLASLt itself; the test is skipped where there is none."""
    found = gemm_lt.library()
    if found is None:
        pytest.skip("cuBLASLt was not found")
    return found


def factors(sizes: tuple[int, int, int], precision: str, rng, device) -> tuple[list, list]:
    """a, b and a bias, which is never stored in half precision: as NumPy's arrays and on the device."""
    n, k, m = sizes
    kind = np.dtype("float32" if precision == "tf32" else precision)
    arrays = [rng.standard_normal(shape).astype(kind) for shape in ((n, k), (k, m))]
    arrays.append(rng.standard_normal(m).astype(kind).astype(np.float32))
    return arrays, placed(device, arrays)


@pytest.mark.parametrize("sizes", [(64, 128, 256), (200, 64, 64), (7, 5, 3), (1, 8, 40), (33, 16, 1)])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_epilogue_equals_adding_bias_and_relu_afterwards(precision, relu, sizes, device, rng, relative_error):
    (a, b, bias), there = factors(sizes, precision, rng, device)
    y = biased_product(*there, relu=relu, tf32=precision == "tf32")
    if y is None and min(sizes) % 8:
        pytest.skip("cuBLASLt has no algorithm for this shape")
    wanted = a.astype(np.float64) @ b.astype(np.float64) + bias
    wanted = np.maximum(wanted, 0) if relu else wanted
    assert y.dtype == a.dtype
    limit = 2e-3 if precision == "tf32" else CLOSE[precision]
    assert relative_error(device.get(y).astype(np.float64), wanted) < limit
    for x, after in zip((a, b, bias), there, strict=True):
        np.testing.assert_array_equal(device.get(after), x)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_same_product_has_the_same_bits_twice(precision, device, rng):
    """With a long sum and few outputs, where it is worth while to add the parts of a sum side by side."""
    _, there = factors((16, 4096, 16), precision, rng, device)
    first, second = (biased_product(*there, relu=True, tf32=precision == "tf32") for _ in range(2))
    assert device.get(first).tobytes() == device.get(second).tobytes()


def test_float64_is_left_to_the_product_and_a_pass(device, rng):
    _, (a, b, bias) = factors((8, 8, 8), "float32", rng, device)
    assert biased_product(a.astype(np.float64), b.astype(np.float64), bias) is None


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("case", [each for each in CASES if each.rule.name in ("linear", "feed_forward")], ids=str)
def test_the_kernels_equal_their_pairs_without_cublaslt_too(case, dtype, device, rng, relative_error, monkeypatch):
    monkeypatch.setattr(gemm_lt, "library", lambda: None)
    check_kernel(case, dtype, device, rng, relative_error)


@pytest.mark.parametrize(("precision", "limit"), [("float32", 1e-5), ("bfloat16", 0.06), ("float16", 0.02)])
def test_an_update_has_the_same_gradient_with_epilogues_and_without(
    precision, limit, device, rng, relative_error, monkeypatch
):
    device.takes_models()
    batch = random_batch(rng)
    model = small_model(rng, device.xp, dtype="float32", attention_bias=True, p_drop=0.2)
    model.precision = precision
    found = device.get(gradient(model, batch, DropoutMasks(5)))
    monkeypatch.setattr(gemm_lt, "library", lambda: None)
    assert relative_error(found, device.get(gradient(model, batch, DropoutMasks(5)))) < limit
