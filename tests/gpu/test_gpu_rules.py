"""Every plain rule on CuPy arrays against itself on NumPy's, and the kernels at the sizes of real training."""

import pytest
from cases import CASES, outputs_and_gradients
from cuda_checks import REAL_SIZES, check_kernel, placed


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
