"""Every plain rule on CuPy arrays against itself on NumPy's, and the kernels at the sizes of real training."""

import numpy as np
import pytest
from cases import CASES, booleans, case, ids, outputs_and_gradients
from cuda_checks import check_kernel, placed

N = 4000


def for_logits(rng, shape):
    """Rows and a table whose products, the logits, have deviation 1, as in training. From factors of deviation 1 they
    have 23, and what bfloat16 rounds off those is three hundredths of the gradient."""
    return rng.standard_normal(shape) * shape[-1] ** -0.25


REAL_SIZES = [
    case("residual_dropout_norm", "base", (N, 512), (N, 512), (512,), (512,), keep=booleans((N, 512)), p_drop=0.1),
    case("residual_dropout_norm", "big", (N, 1024), (N, 1024), (1024,), (1024,)),
    case("layer_norm", "base", (N, 512), (512,), (512,)),
    case("residual_dropout", "base", (N, 512), (N, 512), keep=booleans((N, 512)), p_drop=0.1),
    case("attention", "base", (160, 8, 25, 64), (160, 8, 25, 64), (160, 8, 25, 64), mask=np.tri(25, dtype=bool)),
    case("attention", "long", (2, 8, 600, 64), (2, 8, 700, 64), (2, 8, 700, 64)),
    case("split_heads", "base", (160, 25, 1024), n_heads=8, widths=(64, 64)),
    case("linear", "base", (N, 512), (512, 2048), (2048,)),
    case("feed_forward", "base", (N, 512), (512, 2048), (2048,), (2048, 512), (512,)),
    case("positioned_embedding", "base", (37000, 512), (25, 512), ids=ids(900, (160, 25)), scale=22.6),
    case(
        "projection_loss",
        "base",
        (N, 512),
        (37000, 512),
        draw=for_logits,
        targets=ids(37000, (N,)),
        label_smoothing=0.1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_pair_on_cupy_is_the_pair_on_numpy(case, device, rng, relative_error):
    inputs, options = case.make()
    wanted, grads_y = outputs_and_gradients(case.rule, inputs, options, rng)
    found, _ = outputs_and_gradients(case.rule, *placed(device, (inputs, options)), rng, placed(device, grads_y))
    for result, want in zip(found, wanted, strict=True):
        assert isinstance(result, device.xp.ndarray)
        assert relative_error(device.get(result), want) < 1e-11


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("case", REAL_SIZES, ids=str)
def test_the_kernel_equals_its_pair_at_real_sizes(case, dtype, device, rng, relative_error, monkeypatch):
    """The mask is what the GPU itself shows: drawn number by number, one of this size would take minutes."""
    monkeypatch.setattr("cuda_checks.slow_mask", lambda mask: device.get(mask.array(device.xp)))
    check_kernel(case, dtype, device, rng, relative_error)


def test_kernels_reach_elements_beyond_2_to_the_31(device):
    """Where an index of 32 bits would turn around, on a card with room for it."""
    from minitransformer.kernels.cupy.cast import scaled_copy
    from minitransformer.kernels.precision import half_dtype

    xp, n = device.xp, 2**31 + 1024
    if xp.cuda.runtime.memGetInfo()[0] < 7 * n:
        pytest.skip("the card has no room for 2^31 numbers")
    x = xp.ones(n, xp.float32)
    y = scaled_copy(x, None, half_dtype("bfloat16"))
    assert float(y[-1]) == 1.0 and float(y[2**31]) == 1.0 and bool((y[-2048:] == 1).all())


def test_out_of_memory_names_the_request(device):
    from minitransformer.cuda_diagnosis import memory_trouble

    with pytest.raises(MemoryError) as caught:
        device.xp.empty(1 << 50, "f")
    assert "4,294,967,296 MiB requested on the GPU, " in memory_trouble(caught.value)
