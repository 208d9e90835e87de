"""Every rule and the whole model agree with PyTorch in float64: outputs, losses, all gradients, 50 updates."""

import math

import numpy as np
import pytest
from cases import CASES, as_tuple, cotangents
from small_models import random_batch, small_model

from minitransformer.config import TrainingConfig
from minitransformer.ops.registry import RULES
from minitransformer.optim import Adam
from minitransformer.training.step import train_step

pytestmark = pytest.mark.parity

# Required are 1e-6; in float64 both sides are exact but for rounding, and a tighter bound sees smaller faults.
CLOSE = 1e-11

VARIANTS = {
    "post-norm, tied, sinusoids, no bias": {},
    "post-norm, untied, learned, bias": dict(tie_embeddings=False, positions="learned", attention_bias=True),
    "pre-norm, tied, sinusoids, bias": dict(norm="pre", attention_bias=True),
    "pre-norm, untied, learned, no bias": dict(norm="pre", tie_embeddings=False, positions="learned"),
    "an odd d_model, one head, no smoothing": dict(d_model=7, n_heads=1, label_smoothing=0.0),
}
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
both_kernels = pytest.mark.parametrize("kernels", ["simple", "fast"])


def test_every_rule_has_an_equivalent_in_pytorch(torch):
    import torch_rules

    assert [name for name in RULES if not hasattr(torch_rules, name)] == []


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


def replica_in_pytorch(model):
    """The independent model on copies of the same weights."""
    from torch_model import TorchTransformer

    return TorchTransformer(model.config, {name: model.parameters[name].data.copy() for name in model.parameters.names})


@every_variant
@both_kernels
def test_the_model_agrees_with_pytorch(changes, kernels, rng, torch, relative_error):
    model = small_model(rng, kernel_mode=kernels, **changes)
    batch, other = random_batch(rng), replica_in_pytorch(model)

    assert relative_error(model(batch.src, batch.tgt_in).data, other.logits(batch.src, batch.tgt_in).detach()) < CLOSE

    losses = model.loss(batch)
    wanted_losses = other.loss(batch.src, batch.tgt_in, batch.tgt_out)
    for loss, wanted in zip(losses, wanted_losses, strict=True):
        assert relative_error(loss.data, wanted.detach()) < CLOSE

    losses[0].backward()
    wanted_losses[0].backward()
    for name in model.parameters.names:
        assert relative_error(model.parameters[name].grad, other.weights[name].grad) < CLOSE, name


@both_kernels
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_fifty_updates_give_the_losses_of_pytorch(norm, kernels, rng, torch):
    """Adam, the schedule past its peak, clipping that is active at first, two unequal micro-batches, no dropout.

    A larger learning rate learns more, but then rounding errors grow a millionfold, as in any chaotic system.
    """
    model = small_model(rng, norm=norm, kernel_mode=kernels, p_drop=0.0, d_model=16, d_ff=32)
    config = TrainingConfig(warmup_steps=20, clip_norm=1.5, lr_scale=0.05)
    optimizer, other = Adam(model.parameters, config.beta1, config.beta2, config.eps), replica_in_pytorch(model)
    torch_adam = torch.optim.Adam(other.weights.values(), betas=(config.beta1, config.beta2), eps=config.eps)
    micro_batches = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))]
    results = []
    for update in range(1, 51):
        results.append(train_step(model, optimizer, micro_batches, update=update, config=config))
        loss, norm_before = torch_update(other, torch_adam, micro_batches, update, config)
        assert results[-1].loss == pytest.approx(loss, rel=1e-9)
        assert results[-1].gradient_norm == pytest.approx(norm_before, rel=1e-9)
    # The losses could also agree by standing still, and the norms by never reaching the limit.
    assert results[-1].loss < 0.6 * results[0].loss
    norms = [result.gradient_norm for result in results]
    assert max(norms) > config.clip_norm > min(norms)


def torch_update(model, adam, micro_batches, update: int, config) -> tuple[float, float]:
    """One update of the PyTorch model: (loss in nats per token, norm of the gradient before clipping)."""
    adam.zero_grad()
    n_tokens = sum(int((batch.tgt_out != 0).sum()) for batch in micro_batches)
    sums = (model.loss(batch.src, batch.tgt_in, batch.tgt_out) for batch in micro_batches)
    loss = sum(smoothed for smoothed, _ in sums) / n_tokens
    loss.backward()
    norm = math.sqrt(sum(float((leaf.grad**2).sum()) for leaf in model.weights.values()))
    for leaf in model.weights.values():
        leaf.grad *= min(1.0, config.clip_norm / norm)
    rate = config.lr_scale * model.config.d_model**-0.5 * min(update**-0.5, update * config.warmup_steps**-1.5)
    adam.param_groups[0]["lr"] = rate
    adam.step()
    return loss.item(), norm
