"""Where the kernels leave gradients: emulated on a CPU, and once more on a GPU where there is one."""

import numpy as np
import pytest
from cases import as_tuple
from cuda_checks import CLOSE, KERNEL_CASES, placed, rounded, with_counted_mask
from small_models import random_batch, small_model

from minitransformer.kernels import mode
from minitransformer.kernels.cupy import KERNELS
from minitransformer.kernels.destination import NEW, Destination
from minitransformer.nn import DropoutMasks

pytestmark = [pytest.mark.cuda, pytest.mark.any_device]
LAST_CASES = {each.rule.name: each for each in KERNEL_CASES}
ACCUMULATING = [LAST_CASES[each.name] for each in KERNELS if each.accumulates and each.name != "residual_dropout"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", ACCUMULATING, ids=str)
def test_a_kernel_leaves_gradients_where_it_is_told_to(case, dtype, device, rng, relative_error):
    """Added to what is there, written over it, in a new array, or not at all."""
    kernel = device.kernels[case.rule.name]
    inputs, options = case.make("float32")
    there = placed(device, rounded(inputs, case.rule.name, dtype)[0])
    _, options = with_counted_mask(options, device)

    def backward(into: tuple) -> tuple:
        with mode("fast", dtype):
            y, saved = kernel.forward(*there, **options)
            ones = (device.put(np.ones(each.shape, each.dtype)) for each in map(device.get, as_tuple(y)))
            return kernel.backward(*ones, saved, into=into)

    wanted = [device.get(grad).copy() for grad in backward((NEW,) * len(there))]
    old = [rng.standard_normal(grad.shape).astype(grad.dtype) for grad in wanted]
    for add in (True, False):
        into = tuple(Destination(device.put(each.copy()), add) for each in old)
        for found, to, grad, before in zip(backward(into), into, wanted, old, strict=True):
            total = grad.astype(np.float64) + (before if to.add and found is to.array else 0)
            assert relative_error(device.get(found).astype(np.float64), total) < CLOSE[dtype]
    assert any(found is to.array for found, to in zip(backward(into), into, strict=True))
    assert len(backward((None,) * len(there))) == len(there)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_kernels_leave_all_gradients_of_parameters_in_the_vector(norm, device, rng):
    device.takes_models()
    model, elsewhere = small_model(rng, device.xp, norm=norm, attention_bias=True, p_drop=0.2), []
    (buffer,) = model.parameters.gradient_buffers(1)

    class Watching:
        prepare_for_backward, destination = buffer.prepare_for_backward, buffer.destination

        def accumulate(self, leaf, grad):
            elsewhere.extend([] if grad is leaf.grad else [leaf])
            buffer.accumulate(leaf, grad)

    for _ in range(2):  # the first gradients are written, those of the second micro-batch added
        model.loss(random_batch(rng), DropoutMasks(1))[0].backward(into=Watching())
    assert elsewhere == []
