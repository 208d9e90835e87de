"""Whole updates by the CUDA kernels: emulated on a CPU, and once more on a GPU where there is one."""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from small_models import gradient, losses, random_batch, small_model, train

import examples.paper.models  # noqa: F401
from minitransformer import kernels
from minitransformer.config import Config
from minitransformer.errors import ConfigError
from minitransformer.generation import beam_search
from minitransformer.models import Transformer, build_model
from minitransformer.nn import DropoutMasks
from minitransformer.ops import embedding as embedding_rules
from minitransformer.ops import shape as shape_rules
from minitransformer.training import evaluate_loss

pytestmark = [pytest.mark.cuda, pytest.mark.any_device]
DROP = {"p_drop": 0.2, "p_drop_attention": 0.3, "p_drop_ffn": 0.25}


@pytest.fixture
def gpu(device):
    """The device, as one on which whole models compute."""
    device.takes_models()
    return device


def curve(model: Transformer, batches, updates: int, **options) -> list[float]:
    return losses(train(model, batches, updates, warmup_steps=20, lr_scale=0.1, **options))


def copy_of(library: ModuleType, name: str = "") -> ModuleType:
    other = ModuleType(name or library.__name__)
    vars(other).update({key: each for key, each in vars(library).items() if key != "__name__"})
    return other


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("variant", [{}, {"attention_bias": True, "positions": "learned"}], ids=["", "biases, learned"])
def test_simple_and_fast_kernels_give_the_same_losses(norm, variant, gpu, rng):
    """With every kind of dropout on: the plain rules are given the masks that the kernels count."""
    batches = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))]
    curves = {}
    for mode in ("simple", "fast"):
        model = small_model(np.random.default_rng(8), gpu.xp, norm=norm, kernel_mode=mode, **variant, **DROP)
        curves[mode] = curve(model, batches, 3)
    assert curves["fast"] == pytest.approx(curves["simple"], rel=1e-9)
    assert len(set(curves["simple"])) == 6


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "recurrent", "attention": "dot"},
        {"kind": "recurrent", "attention": "additive"},
        {"kind": "restricted_attention", "attention_window": 2, "p_drop_attention": 0.3},
        {"kind": "convolution", "dilation": 2},
    ],
    ids=str,
)
def test_rules_without_a_kernel_run_between_those_with_one(changes, gpu, rng, monkeypatch):
    """And none of them adds by add.at, whose order of sums on a GPU is another in every run."""
    shape = {"d_ff": 10, "n_heads": 2} if changes["kind"] != "recurrent" else {}
    shape |= {"vocab_size": 13, "n_layers": 2, "d_model": 6, "dtype": "float64", "p_drop": 0.2}
    config = Config.from_dict({"model": shape | changes}).model
    batches = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))]
    simple = curve(build_model(config, 1, gpu.xp, kernel_mode="simple"), batches, 3)
    without_add = copy_of(gpu.xp)
    without_add.add = None
    for module in (shape_rules, embedding_rules):
        monkeypatch.setattr(module, "get_array_module", lambda *arrays: without_add)
    assert curve(build_model(config, 1, gpu.xp), batches, 3) == pytest.approx(simple, rel=1e-9)
    like_cupy = copy_of(np, "cupy")
    config = replace(config, dtype="float32")
    assert build_model(config, xp=like_cupy, precision="tf32").precision == "tf32"
    with pytest.raises(ConfigError, match="precision must be float32 or tf32 for a kind of model that has"):
        build_model(config, xp=like_cupy, precision="float16")


@pytest.mark.parametrize(
    ("norm", "absent"),
    [("post", {"embedding", "layer_norm", "residual_dropout"}), ("pre", {"embedding", "residual_dropout_norm"})],
)
def test_training_steps_reach_every_kernel(norm, absent, gpu, rng, monkeypatch):
    chosen, select = set(), kernels.select

    def recording(rule, xp):
        pair = select(rule, xp)
        chosen.add((pair.name, pair is gpu.kernels.get(pair.name)))
        return pair

    monkeypatch.setattr(kernels, "select", recording)
    train(small_model(rng, gpu.xp, norm=norm, p_drop=0.1), [random_batch(rng)])
    assert {name for name, is_kernel in chosen if is_kernel} == set(gpu.kernels) - absent
    assert {name for name, is_kernel in chosen if not is_kernel} == {"reshape", "merge_heads", "split_heads"}


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "float16"])
def test_every_precision_has_the_gradient_of_float32_up_to_rounding(precision, gpu, rng, relative_error):
    batch = random_batch(rng)
    model = small_model(rng, gpu.xp, dtype="float32", **DROP)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.feed_forward.b1.data += 5.0  # near 0 rounding would switch hidden units on or off, and their gradients
    exact = gpu.get(gradient(model, batch, DropoutMasks(5)))
    model.precision = precision
    found = gpu.get(gradient(model, batch, DropoutMasks(5)))
    assert found.dtype == np.float32
    assert relative_error(found, exact) < {"float32": 1e-6, "tf32": 5e-3, "bfloat16": 0.03, "float16": 5e-3}[precision]


def test_the_same_seed_gives_the_same_bits(gpu, rng):
    batch, parameters = random_batch(rng), []
    for _ in range(2):
        model = small_model(np.random.default_rng(8), gpu.xp, dtype="float32", **DROP)
        model.precision = "bfloat16"
        train(model, [batch], 2)
        parameters.append(gpu.get(model.parameters.data).tobytes())
    assert parameters[0] == parameters[1]


def test_validation_losses_and_translations_are_those_of_the_plain_rules(gpu, rng):
    batches = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))]
    fast = small_model(np.random.default_rng(8), gpu.xp, **DROP)
    simple = small_model(np.random.default_rng(8), kernel_mode="simple", **DROP)  # on NumPy
    assert evaluate_loss(fast, batches) == pytest.approx(evaluate_loss(simple, batches), rel=1e-12)
    found, wanted = (beam_search(model, batches[0].src, beam_size=3, n_best=3) for model in (fast, simple))
    for ours, expected in zip(found, wanted, strict=True):
        assert [hypothesis.ids for hypothesis in ours] == [hypothesis.ids for hypothesis in expected]
        assert [each.score for each in ours] == pytest.approx([each.score for each in expected], rel=1e-9)


def test_searches_and_logits_are_never_stored_in_half_precision(gpu, rng, relative_error):
    batch, model = random_batch(rng), small_model(rng, gpu.xp, dtype="float32")
    exact = gpu.get(model(batch.src, batch.tgt_in).data)
    model.precision = "bfloat16"
    # TF32 that is rounded gives 9e-4, TF32 that is cut off 4e-3, and bfloat16 1.5e-2.
    assert relative_error(gpu.get(model(batch.src, batch.tgt_in).data), exact) < 7e-3
    assert model.start(batch.src, 1).memory[0][0].dtype == np.float32
