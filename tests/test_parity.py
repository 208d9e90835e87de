"""Every rule and the whole model agree with PyTorch in float64: outputs, losses, all gradients, 50 updates."""

import numpy as np
import pytest
from cases import CASES, as_tuple, cotangents

pytestmark = pytest.mark.parity

# Required are 1e-6; in float64 both sides are exact but for rounding, and a tighter bound sees smaller faults.
CLOSE = 1e-11


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_agrees_with_pytorch(case, rng, torch, relative_error):
    import torch_rules

    inputs, options = case.make()
    outputs, saved = case.rule.forward(*inputs, **options)
    grads_y = cotangents(case.rule, as_tuple(outputs), rng)
    grads_x = case.rule.backward(*grads_y, saved)

    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    options = {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
    expected = as_tuple(getattr(torch_rules, case.rule.name)(*tensors, **options))
    for y, wanted in zip(as_tuple(outputs), expected, strict=True):
        assert relative_error(y, wanted.detach()) < CLOSE
    used = [(y, torch.tensor(g)) for y, g in zip(expected, grads_y, strict=True) if g is not None]
    wanted_grads = torch.autograd.grad([y for y, _ in used], tensors, [g for _, g in used])
    for grad_x, wanted in zip(grads_x, wanted_grads, strict=True):
        assert relative_error(grad_x, wanted) < CLOSE
