"""Attention in one kernel each way: any shape, heads where the projections wrote them, nothing stored or moved."""

import numpy as np
import pytest
from cases import outputs_and_gradients, value
from cuda_checks import CLOSE, placed, rounded
from cuda_on_cpu import kernels as emulated_kernels

from minitransformer.errors import ShapeError
from minitransformer.kernels import CountedMask
from minitransformer.kernels.cupy import launch
from minitransformer.kernels.cupy.attention import TILES, tile_of
from minitransformer.kernels.cupy.launch import Counter
from minitransformer.ops.attention import attention
from minitransformer.ops.shape import merge_heads, split_heads

pytestmark = [pytest.mark.cuda, pytest.mark.any_device]
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])


def random_case(rng, dtype: str, widths: tuple[int, int], longest: int) -> tuple[list, list, dict, CountedMask | None]:
    """Inputs for the kernel, the same values for the rule, a mask of any kind, a mask of dropout.

    Rows with few keys have gradients near 0, the differences of what half precision has rounded: there are none there.
    """
    batch, n_heads = rng.integers(1, 3, 2)
    fewest = 1 if dtype in ("float32", "float64") else 9
    n_queries, n_keys = rng.integers(1, longest + 1), rng.integers(fewest, longest + 1)
    shapes = [(n_queries, widths[0]), (n_keys, widths[0]), (n_keys, widths[1])]
    exact = np.float64 if dtype == "float64" else np.float32
    inputs = [rng.standard_normal((batch, n_heads, *shape)).astype(exact) for shape in shapes]
    given, inputs = rounded(inputs, "attention", dtype)
    masks = [
        None,
        rng.random((batch, 1, 1, n_keys)) < 0.7,
        rng.random((1, 1, n_queries, 1)) < 0.7,  # rows that may attend to all or to nothing
        rng.random((batch, n_heads, n_queries, n_keys)) < 0.6,
        np.arange(n_keys) <= np.arange(n_queries)[:, None] + 8,  # whole tiles are masked
    ]
    shape = (batch, n_heads, n_queries, n_keys)
    keep = CountedMask(5 - (7 << 32), 3, shape, 0.3) if rng.random() < 0.5 else None
    return given, inputs, {"mask": masks[rng.integers(5)], "p_drop": 0.3 if keep else 0.0}, keep


def check(device, rng, relative_error, dtype: str, widths: tuple[int, int], longest: int = 75) -> None:
    compare(device, rng, relative_error, dtype, *random_case(rng, dtype, widths, longest))


def compare(device, rng, relative_error, dtype: str, given, inputs, options, keep=None) -> None:
    there, options_there, keep = (placed(device, each) for each in (given, options, keep))
    y, saved = device.kernels["attention"].forward(*there, keep=keep, **options_there)
    grad_y = rng.standard_normal(y.shape).astype(dtype)
    found = [y, *device.kernels["attention"].backward(device.put(grad_y), saved)]
    drawn = None if keep is None else device.get(keep.array(device.xp))
    options |= {"keep": drawn}
    wanted, _ = outputs_and_gradients(attention, inputs, options, rng, (grad_y.astype(inputs[0].dtype),))
    for result, want in zip(found, wanted, strict=True):
        assert result.dtype == dtype
        assert relative_error(device.get(result), want) < CLOSE[dtype]


@every_dtype
@pytest.mark.parametrize("widths", [(16, 16), (5, 13), (24, 40)], ids=str)
def test_attention_of_any_lengths_and_masks_is_that_of_the_rule(widths, dtype, device, rng, relative_error):
    for longest in (TILES[-1], 75, 75):  # of one tile, and of several
        check(device, rng, relative_error, dtype, widths, longest)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("lengths", [(25, 25), (32, 32), (17, 32), (32, 17)], ids=str)
def test_sentences_that_fill_a_tile_at_the_width_of_base(lengths, dtype, device, rng, relative_error):
    shapes = [(2, 2, length, 64) for length in (*lengths, lengths[1])]
    given, inputs = rounded([rng.standard_normal(shape).astype(np.float32) for shape in shapes], "attention", dtype)
    mask = np.arange(lengths[1]) < np.array([lengths[1], 11])[:, None, None, None]  # padding in the second sentence
    compare(device, rng, relative_error, dtype, given, [x.astype(np.float64) for x in inputs], {"mask": mask})


@pytest.mark.parametrize("longest", [TILES[-1], 40])
def test_where_nothing_may_be_attended_to_all_gradients_are_zero(longest, device, rng):
    q, k, v, grad_y = (device.put(rng.standard_normal((2, 3, longest, 8)).astype(np.float32)) for _ in range(4))
    mask = device.put(np.arange(6).reshape(2, 3, 1, 1) > 2)  # the first sentence's heads see nothing
    y, saved = device.kernels["attention"].forward(q, k, v, mask=mask)
    for found in (y, *device.kernels["attention"].backward(grad_y, saved)):
        assert not device.get(found)[0].any() and device.get(found)[1].all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_without_tensor_cores_the_plain_body_computes_the_same(dtype, device, rng, relative_error, monkeypatch):
    if launch.compile_kernel is not emulated_kernels.compile_kernel:
        pytest.skip("what a GPU has is known when it compiles")

    def turing(file, kernel, dtype, names):
        return emulated_kernels.compile_kernel(file, kernel, dtype, (*names, ("__CUDA_ARCH__", 700)))

    monkeypatch.setattr(launch, "compile_kernel", turing)
    check(device, rng, relative_error, dtype, (5, 13))


@every_dtype
def test_heads_too_wide_for_shared_memory_follow_the_plain_rule(dtype, device, rng, relative_error):
    assert tile_of(np.dtype(dtype), 400, 400) == 0 < tile_of(np.dtype(dtype), 64, 64)
    check(device, rng, relative_error, dtype, (400, 400))


def test_heads_are_read_in_packed_projections_and_merged_without_a_copy(device, rng, relative_error):
    batch, length, n_heads, widths = 2, 7, 3, (5, 5, 4)
    there = device.put(rng.standard_normal((batch, length, n_heads * sum(widths))))
    heads = value(split_heads, there, n_heads=n_heads, widths=widths)
    before = Counter.launches
    y, saved = device.kernels["attention"].forward(*heads)
    merged = value(merge_heads, y)
    assert merged.flags.c_contiguous and device.xp.may_share_memory(merged, y)
    (grad_heads,) = merge_heads.backward(device.put(rng.standard_normal(merged.shape)), (y.shape,))
    grads = device.kernels["attention"].backward(grad_heads, saved)
    assert Counter.launches - before == 2
    assert all(grad.swapaxes(1, 2).flags.c_contiguous for grad in grads)  # as a projection wants them
    inputs = [device.get(x) for x in heads]
    wanted, _ = outputs_and_gradients(attention, inputs, {}, rng, (device.get(grad_heads),))
    for found, want in zip((y, *grads), wanted, strict=True):
        assert relative_error(device.get(found), want) < 1e-12


@pytest.mark.parametrize("n_queries", [1, 4])
def test_few_queries_attend_to_slices_of_a_cache_where_they_lie(n_queries, device, rng, monkeypatch):
    """As nn/prefix_tree_cache.py hands them: the first slots of a larger array, some masked."""
    q = rng.standard_normal((2, 3, n_queries, 8)).astype(np.float32)
    cache = rng.standard_normal((2, 2, 3, 90, 8)).astype(np.float32)
    mask = rng.random((2, 1, n_queries, 70)) < 0.6
    there, copies = device.put(cache), []
    monkeypatch.setattr(device.xp, "ascontiguousarray", lambda x: copies.append(x) or x.copy())
    before = Counter.launches
    keys, values = (each[:, :, :70] for each in there)
    y = value(device.kernels["attention"], device.put(q), keys, values, mask=device.put(mask))
    assert Counter.launches - before == 1 and copies == []
    wanted = value(attention, q, *(each[:, :, :70] for each in cache), mask=mask)
    np.testing.assert_allclose(device.get(y), wanted, rtol=1e-5, atol=1e-6)


def test_forward_and_backward_give_the_same_bits_again(device, rng):
    given, _, options, keep = random_case(rng, "bfloat16", (24, 24), 75)
    there, options, keep, bits = *(placed(device, each) for each in (given, options, keep)), []
    for _ in range(2):
        y, saved = device.kernels["attention"].forward(*there, keep=keep, **options)
        results = (y, *device.kernels["attention"].backward(there[0], saved))
        bits.append([device.get(result).tobytes() for result in results])
    assert bits[0] == bits[1]


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 4), (2, 5, 6), (2, 5, 6)),
        ((2, 3, 4), (1, 5, 4), (1, 5, 4)),
        ((2, 3, 4), (2, 5, 4), (2, 6, 4)),
        ((2, 0, 4), (2, 5, 4), (2, 5, 4)),
        ((2, 3, 4), (2, 5, 4), (2, 5, 0)),
    ],
    ids=str,
)
def test_inputs_that_do_not_fit_together_are_refused(shapes, device):
    inputs = [device.put(np.ones(shape)) for shape in shapes]
    with pytest.raises(ShapeError, match="attention: q, k and v must fit together, and none may be empty"):
        device.kernels["attention"].forward(*inputs)
