"""Whole runs on a GPU: training learns, resumes to the same bits, crosses between libraries, translates, fits."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import batch_of_shape, random_batch, small_model, train
from tiny_run import assert_same_state, tiny_trainer

from minitransformer.checkpoints import load_checkpoint, load_model
from minitransformer.config import ModelConfig, TrainingConfig
from minitransformer.generation import greedy_search
from minitransformer.kernels.cupy.projection_loss import pitch_of
from minitransformer.models import Transformer
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam
from minitransformer.planning import plan_memory
from minitransformer.training import read_metrics, train_step

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_on_the_gpu_learns(precision, device, tmp_path):
    trainer = tiny_trainer(tmp_path, device="cuda", precision=precision, updates=60, validate_every=20)
    assert trainer.model.xp.__name__ == "cupy"
    trainer.run()
    losses = [line["nll"] for line in read_metrics(trainer.folder.metrics) if line["kind"] == "valid"]
    assert losses[-1] < losses[0] and np.isfinite(losses).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_run_stopped_and_resumed_on_the_gpu_ends_in_the_same_bits(precision, device, tmp_path):
    options = {"device": "cuda", "precision": precision}
    tiny_trainer(tmp_path / "one", updates=12, **options).run()
    tiny_trainer(tmp_path / "two", updates=5, **options).run()
    tiny_trainer(tmp_path / "two", updates=12, **options).run()
    assert_same_state(tmp_path / "two", tmp_path / "one", 12)


@pytest.mark.parametrize(("first", "then"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_resumes_with_the_other_library(first, then, device, tmp_path):
    tiny_trainer(tmp_path, updates=4, device=first).run()
    trainer = tiny_trainer(tmp_path, updates=8, device=then)
    assert trainer.update == 4
    assert trainer.run().update == 8


def test_a_gpu_checkpoint_in_half_precision_translates_on_the_cpu(device, tmp_path):
    tiny_trainer(tmp_path, updates=8, device="cuda", precision="bfloat16").run()
    path = tmp_path / "checkpoints" / "update_00000008.npz"
    assert load_checkpoint(path).parameters.dtype == np.float32
    on_gpu, on_cpu = load_model(path, "cuda")[0], load_model(path, "cpu")[0]
    assert (on_gpu.precision, on_cpu.precision) == ("bfloat16", "float32")
    src = np.array([[4, 5, 6, 2], [7, 8, 2, 0]])
    found = [h.log_prob for h in greedy_search(on_gpu, src, max_extra=3)]
    assert found == pytest.approx([h.log_prob for h in greedy_search(on_cpu, src, max_extra=3)], rel=0.02)


@pytest.mark.parametrize("clip_norm", [0.0, 0.1])
def test_updates_on_the_gpu_without_dropout_are_those_of_numpy(clip_norm, device, rng, relative_error):
    batches, parameters = [random_batch(rng)], []
    for xp in (np, device.xp):
        model = small_model(np.random.default_rng(3), xp, p_drop=0.0)
        train(model, batches, 5, warmup_steps=20, lr_scale=0.1, clip_norm=clip_norm)
        parameters.append(np.asarray(device.get(model.parameters.data)))
    assert relative_error(parameters[1], parameters[0]) < 1e-9


def test_passes_and_adam_read_no_value_of_the_device(device, rng):
    import cupyx

    if not hasattr(cupyx, "allow_synchronize"):
        pytest.skip("this CuPy cannot forbid to read values")
    model = Transformer(ModelConfig(vocab_size=50, n_layers=1, d_model=64, d_ff=64, n_heads=2), xp=device.xp)
    adam, batch = Adam(model.parameters), random_batch(rng)
    train_step(model, adam, [batch], update=1, config=TrainingConfig())  # compiles
    with cupyx.allow_synchronize(False):
        loss, _ = model.loss(batch, DropoutMasks(1, 2))
        loss.backward(0.1)
        adam.step(0.1)
    assert np.isfinite(loss.item())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_update_of_real_size_ends_in_the_same_bits_twice(precision, device):
    config = ModelConfig(vocab_size=8000, d_model=256, d_ff=1024, n_layers=2, n_heads=4, p_drop_attention=0.1)
    batch, ends = batch_of_shape(config, (100, 25, 25)), []
    for _ in range(2):
        model = Transformer(config, xp=device.xp, precision=precision)
        train(model, [batch], 3)
        ends.append(device.get(model.parameters.data).tobytes())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("row", ["base", "C4"])
def test_the_peak_memory_on_the_gpu_is_at_most_the_planned_one_and_the_logits(row, precision, device):
    from benchmarks.gpu.memory import peak_of

    config, shape = replace(ModelConfig.table3(row), p_drop=0.1), (200, 25, 25)
    batch = batch_of_shape(config, shape)
    model = Transformer(config, xp=device.xp, precision=precision)
    adam = Adam(model.parameters)

    def step():
        train_step(model, adam, [batch], update=1, config=TrainingConfig())

    step()
    lasting, itemsize = 16 * model.parameters.count, 4 if precision == "float32" else 2
    logits = batch.tgt_out.size * pitch_of(config.vocab_size) * itemsize  # all; a plan has those of 512 tokens
    assert peak_of(step, device.xp) + lasting < plan_memory(config, *shape).peak + logits
