"""Fast kernels against the plain rules that define them, and proof that training uses every kernel."""

import math
import re
import sys

import numpy as np
import pytest
from cases import CASES, as_tuple, booleans, case, ids, outputs_and_gradients
from small_models import losses, random_batch, small_model, train

from minitransformer import kernels
from minitransformer.kernels.numpy.attention import FEW_QUERIES
from minitransformer.ops.attention import attention_forward
from minitransformer.ops.registry import RULES

KERNELS = {name: kernel for (name, library), kernel in kernels.KERNELS.items() if library == "numpy"}
KERNEL_CASES = [each for each in CASES if each.rule.name in KERNELS]
SMALL_BLOCKS = [1, 16, 18, 32, 36, 10**6]  # elements: one row, some, all; the rows of the cases divide some of them
SIZE_NAME = re.compile(r"_(ELEMENTS|ROWS)$")
KEEP = (2, 128, 512)
LARGER_THAN_A_BLOCK = [
    case("projection_loss", "not divided", (1100, 6), (2100, 6), targets=ids(2100, (1100,)), label_smoothing=0.1),
    case("residual_dropout_norm", "off, not divided", (3, 77, 512), (3, 77, 512), (512,), (512,)),
    case("residual_dropout_norm", "keep, divided", KEEP, KEEP, (512,), (512,), keep=booleans(KEEP), p_drop=0.1),
]
CLOSE = {np.float32: 3e-6, np.float64: 1e-12}

both_dtypes = pytest.mark.parametrize("dtype", CLOSE)


def compare(case, dtype, rng, relative_error):
    """Outputs, gradients and dtypes of the kernel are those of the rule; no argument is written to."""
    inputs, options = case.make(dtype)
    expected, grads_y = outputs_and_gradients(case.rule, inputs, options, rng)
    given = [x for x in (*inputs, *options.values(), *grads_y) if isinstance(x, np.ndarray)]
    before = [x.copy() for x in given]
    found, _ = outputs_and_gradients(KERNELS[case.rule.name], inputs, options, rng, grads_y)
    for result, wanted in zip(found, expected, strict=True):
        assert result.dtype == dtype
        assert relative_error(result, wanted) < CLOSE[dtype]
    for x, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, copy)


def kernel_module(name: str):
    return sys.modules[KERNELS[name].forward.__module__]


def block_sizes(name: str) -> list[str]:
    """The constants that say how much a kernel processes at a time: they are called ..._ELEMENTS or ..._ROWS."""
    return [constant for constant in vars(kernel_module(name)) if SIZE_NAME.search(constant)]


@pytest.mark.parametrize(
    ("case", "block"),
    [(each, block) for each in KERNEL_CASES for block in (SMALL_BLOCKS if block_sizes(each.rule.name) else [None])],
    ids=str,
)
@both_dtypes
def test_a_kernel_equals_its_rule_whatever_the_block(case, block, dtype, rng, relative_error, monkeypatch):
    for name in block_sizes(case.rule.name):
        monkeypatch.setattr(kernel_module(case.rule.name), name, 1 if name.endswith("_ROWS") else block)
    compare(case, dtype, rng, relative_error)


@pytest.mark.parametrize("case", LARGER_THAN_A_BLOCK, ids=str)
@both_dtypes
def test_a_kernel_equals_its_rule_at_sizes_larger_than_its_block(case, dtype, rng, relative_error):
    compare(case, dtype, rng, relative_error)


@pytest.mark.parametrize("case", [each for each in KERNEL_CASES if KERNELS[each.rule.name].inference_forward], ids=str)
def test_a_forward_that_saves_nothing_gives_the_same_output(case, relative_error):
    inputs, options = case.make()
    expected = as_tuple(case.rule.forward(*inputs, **options)[0])
    found = as_tuple(KERNELS[case.rule.name].inference_forward(*inputs, **options))
    for y, wanted in zip(found, expected, strict=True):
        assert relative_error(y, wanted) < 1e-13


@pytest.mark.parametrize("n_queries", [1, FEW_QUERIES, FEW_QUERIES + 1])
@pytest.mark.parametrize("mask_shape", [None, (5, 1, 1, 7), (5, 1, "n", 7), ("n", 7)], ids=str)
def test_attention_of_few_queries_and_of_more_gives_the_same_output(n_queries, mask_shape, rng, relative_error):
    q, k, v = (rng.standard_normal((5, 2, length, 4)) for length in (n_queries, 7, 7))
    mask = None
    if mask_shape is not None:
        mask = rng.random([n_queries if size == "n" else size for size in mask_shape]) < 0.6
        mask[0] = False  # some may attend to nothing
    y = KERNELS["attention"].inference_forward(q, k, v, mask=mask)
    assert relative_error(y, attention_forward(q, k, v, mask=mask)[0]) < 1e-13


@pytest.mark.parametrize("kernel", kernels.KERNELS.values(), ids=lambda kernel: kernel.name)
def test_every_kernel_has_a_rule_of_its_name_and_outputs(kernel):
    assert kernel.n_non_differentiable == RULES[kernel.name].n_non_differentiable


def test_every_kernel_with_blocks_is_also_compared_at_larger_sizes():
    assert {each.rule.name for each in LARGER_THAN_A_BLOCK} == {name for name in KERNELS if block_sizes(name)}


@pytest.mark.parametrize("masked", [False, True], ids=["far apart", "far apart and masked"])
def test_attention_with_scores_far_apart_is_as_exact_as_its_rule(masked, rng, relative_error):
    """Shifted by anything but its own maximum, a row could vanish: e^-300 is 0 in float32."""
    q, k, v = (rng.standard_normal((2, 3, 5, 4)).astype(np.float32) for _ in range(3))
    q[0] *= 300.0
    options = {"mask": rng.random((2, 1, 5, 5)) < 0.7 if masked else None}
    expected, grads_y = outputs_and_gradients(RULES["attention"], (q, k, v), options, rng)
    found, _ = outputs_and_gradients(KERNELS["attention"], (q, k, v), options, rng, grads_y)
    for ours, wanted in zip(found, expected, strict=True):
        assert relative_error(ours, wanted) < 1e-5


def test_the_loss_of_equal_logits_is_the_logarithm_of_their_number_however_large_they_are():
    for size in (1.0, 1e3, 1e9, -1e9, 1e30):
        x, table, targets = np.full((4, 2), size, np.float32), np.ones((81, 2), np.float32), np.array([7, 80, 0, 3])
        for kernel in (RULES["projection_loss"], KERNELS["projection_loss"]):
            losses, saved = kernel.forward(x, table, targets=targets, label_smoothing=0.1)
            assert [float(loss) for loss in losses] == pytest.approx([3 * math.log(81)] * 2, rel=1e-6)
            assert all(np.isfinite(grad).all() for grad in kernel.backward(np.array(1.0, np.float32), None, saved))


@pytest.mark.parametrize("pair", [RULES["projection_loss"], KERNELS["projection_loss"]], ids=["plain", "kernel"])
def test_a_logit_that_overflows_leaves_the_loss_finite_unless_it_is_smoothed(pair):
    x, targets = np.array([[1e20, 1.0], [1.0, 2.0]], np.float32), np.array([1, 2])
    table = np.array([[-1e20, 1.0], [1.0, 2.0], [3.0, 1.0]], np.float32)
    with np.errstate(over="ignore"):
        (loss, nll), saved = pair.forward(x, table, targets=targets)
        smoothed = pair.forward(x, table, targets=targets, label_smoothing=0.1)[0][0]
    assert loss == nll == pytest.approx(2e20) and smoothed == np.inf
    assert all(np.isfinite(grad).all() for grad in pair.backward(np.array(1.0, np.float32), None, saved))


def rules_of_one_step(rng, monkeypatch, **changes) -> list:
    """The pairs, kernels or not, that one training step applies."""
    chosen, select = [], kernels.select

    def recording(rule, xp):
        chosen.append(select(rule, xp))
        return chosen[-1]

    monkeypatch.setattr(kernels, "select", recording)
    train(small_model(rng, **changes), [random_batch(rng)])
    return chosen


def test_one_training_step_uses_every_kernel(rng, monkeypatch):
    chosen = rules_of_one_step(rng, monkeypatch, p_drop=0.1)
    assert [name for name, kernel in KERNELS.items() if not any(pair is kernel for pair in chosen)] == []


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_simple_and_fast_kernels_give_the_same_losses(norm, rng):
    micro_batches = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))]
    curves = {}
    for mode in ("simple", "fast"):
        model = small_model(np.random.default_rng(8), norm=norm, kernel_mode=mode, p_drop=0.1, p_drop_attention=0.1)
        curves[mode] = losses(train(model, micro_batches, 30, warmup_steps=20, lr_scale=0.1))
    assert curves["fast"] == pytest.approx(curves["simple"], rel=1e-9)
    assert curves["simple"][-2] < curves["simple"][0]
