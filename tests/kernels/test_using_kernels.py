"""Pairs that take the place of a rule, also where the rule is part of another one that has a kernel."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import random_batch, small_model

from minitransformer import kernels
from minitransformer.errors import ConfigError
from minitransformer.kernels import mode, using_kernels
from minitransformer.kernels.composites import rules_within
from minitransformer.nn import DropoutMasks
from minitransformer.ops.registry import RULES

PARTS = {
    "attention": {"softmax", "dropout"},
    "feed_forward": {"linear", "relu", "dropout"},
    "positioned_embedding": {"embedding", "dropout"},
    "projection_loss": {"linear", "cross_entropy", "log_softmax"},
    "residual_dropout": {"dropout"},
    "residual_dropout_norm": {"residual_dropout", "dropout", "layer_norm"},
}
"""What each rule is made of that consists of others and has a kernel."""

DROP = {"p_drop": 0.2, "p_drop_attention": 0.2, "p_drop_ffn": 0.2}


def spoilt(name: str):
    """The rule with a fault: to its output a tenth of its absolute value is added."""
    rule = RULES[name]

    def forward(*inputs, **options):
        y, saved = rule.forward(*inputs, **options)
        return (tuple(each + 0.1 * abs(each) for each in y) if isinstance(y, tuple) else y + 0.1 * abs(y)), saved

    return replace(rule, forward=forward, inference_forward=None)


def renamed(name: str, calls: list):
    """A pair that is right and counts its calls."""
    rule = RULES[name]

    def forward(*inputs, **options):
        calls.append("forward")
        return rule.forward(*inputs, **options)

    def backward(*grads_and_saved):
        calls.append("backward")
        return rule.backward(*grads_and_saved)

    return replace(rule, forward=forward, backward=backward, inference_forward=None)


def loss_of(model, batch) -> float:
    loss, _ = model.loss(batch, DropoutMasks(3))
    loss.backward()
    return loss.item()


@pytest.mark.parametrize("library", ["numpy", "cupy"])
def test_the_parts_of_every_kernel_are_known(library):
    made = {name: set(rules_within(RULES[name])) for name, its_library in kernels.KERNELS if its_library == library}
    for name, parts in made.items():
        assert parts & RULES.keys() == PARTS.get(name, set())


@pytest.mark.parametrize("kernel_mode", ["fast", "simple"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("part", sorted({part for parts in PARTS.values() for part in parts} | PARTS.keys()))
def test_a_faulty_pair_for_a_part_shows_in_the_result_of_the_model(part, norm, kernel_mode, rng):
    batch, model = random_batch(rng), small_model(rng, norm=norm, kernel_mode=kernel_mode, **DROP)
    right, is_used = loss_of(model, batch), (part, norm) != ("residual_dropout_norm", "pre")
    with using_kernels({(part, "numpy"): spoilt(part)}):
        assert (loss_of(model, batch) != pytest.approx(right, rel=1e-6)) == is_used
    assert loss_of(model, batch) == right


@pytest.mark.parametrize("part", sorted({part for parts in PARTS.values() for part in parts}))
def test_a_right_pair_for_a_part_changes_nothing_and_is_called_both_ways(part, rng):
    batch, model, calls = random_batch(rng), small_model(rng, **DROP), []
    right = loss_of(model, batch)
    gradient = model.parameters.grad.copy()
    model.parameters.zero_grad()
    with using_kernels({(part, "numpy"): renamed(part, calls)}):
        assert loss_of(model, batch) == pytest.approx(right, rel=1e-12)
    np.testing.assert_allclose(model.parameters.grad, gradient, rtol=1e-9, atol=1e-12)
    assert "forward" in calls and ("backward" in calls or part == "log_softmax")  # cross_entropy knows its own backward


def test_only_kernels_with_the_part_are_off():
    with using_kernels({("linear", "numpy"): RULES["linear"]}):
        off = {
            name for name, library in kernels.KERNELS if library == "numpy" and not kernels.uses_kernel(name, library)
        }
    assert off == {"linear", "feed_forward", "projection_loss"}
    assert kernels.select(RULES["linear"], np) is kernels.KERNELS["linear", "numpy"]


def test_blocks_within_each_other_add_up_and_the_inner_one_comes_first():
    first, second = spoilt("relu"), renamed("relu", [])
    with using_kernels({("relu", "numpy"): first, ("softmax", "numpy"): spoilt("softmax")}):
        with using_kernels({("relu", "numpy"): second}), mode("simple"):
            assert kernels.select(RULES["relu"], np) is second
            assert not kernels.uses_kernel("attention", "numpy")
        assert kernels.select(RULES["relu"], np) is first
    assert kernels.select(RULES["relu"], np) is RULES["relu"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({("relu", "numpy"): RULES["softmax"]}, "the pair for 'relu' must be a Rule of that name, got Rule"),
        ({("relu", "numpy"): abs}, "the pair for 'relu' must be a Rule of that name, got <built-in"),
        ({("relu", "jax"): RULES["relu"]}, "the library must be one of numpy, cupy, got 'jax'"),
    ],
)
def test_what_is_no_pair_for_the_rule_is_refused(pairs, message):
    with pytest.raises(ConfigError, match=f"^using_kernels: {message}"), using_kernels(pairs):
        pass


@pytest.mark.cuda
def test_on_a_gpu_a_replaced_part_is_given_masks_as_arrays(device, rng):
    device.takes_models()
    batch, model, calls = random_batch(rng), small_model(rng, **DROP), []
    right = loss_of(model, batch)
    with using_kernels({("softmax", "numpy"): renamed("softmax", calls), ("relu", "numpy"): renamed("relu", calls)}):
        assert loss_of(model, batch) == pytest.approx(right, rel=1e-9)
    assert calls
