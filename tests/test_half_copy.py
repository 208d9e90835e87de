"""The copy of all parameters in half precision that Adam writes: never another one than a cast would give."""

import numpy as np
import pytest
from cuda_on_cpu.device_arrays import cupy_stand_in
from small_models import losses, random_batch, small_model, train
from tiny_run import assert_same_state, checkpoint_of, tiny_corpus, tiny_trainer

from minitransformer.checkpoints import load_checkpoint
from minitransformer.config import TrainingConfig
from minitransformer.kernels import HalfCopy, mode
from minitransformer.kernels.cupy import cast
from minitransformer.kernels.cupy.adam import adam
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, LossScale
from minitransformer.training import Corpus, ParallelGradientAccumulator, train_step
from minitransformer.training.graphs import GraphedLoss

pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install -e '.[dev]'")
pytestmark = [pytest.mark.cuda, pytest.mark.any_device]
OPTIONS = {"beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "step_size": 0.02, "inv_sqrt_correction": 7.0}


@pytest.fixture
def casts(monkeypatch) -> list[int]:
    """The sizes of all arrays that have been cast."""
    sizes, scaled_copy = [], cast.scaled_copy
    monkeypatch.setattr(cast, "scaled_copy", lambda x, *options: sizes.append(x.size) or scaled_copy(x, *options))
    return sizes


def bits(device, array) -> bytes:
    return np.ascontiguousarray(device.get(array)).tobytes()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_adam_rounds_its_copy_as_a_cast_does(precision, device, rng):
    size = int(rng.integers(1000, 2000))
    numbers = [rng.standard_normal(size) * 10.0 ** rng.uniform(-9, 6, size) for _ in range(4)]
    numbers[2] **= 2
    numbers[3][:3] = np.nan, np.inf, -np.inf
    half_copy, found = device.xp.empty(size, precision), []
    for copy in (None, half_copy):
        vectors = [device.put(each.astype(np.float32)) for each in numbers]
        with np.errstate(all="ignore"):
            adam(*vectors, **OPTIONS, half_copy=copy)
        found.append([bits(device, each) for each in vectors])
    assert found[0] == found[1]  # what else it writes does not depend on the copy
    assert bits(device, half_copy) == bits(device, cast.cast_parameter(vectors[0], half_copy.dtype))


def test_a_run_has_the_bits_of_updates_that_cast(device, rng, casts):
    """Two micro-batches, and a first update that overflows and is skipped."""
    device.takes_models()
    batches, found = [random_batch(rng), random_batch(rng, (3, 6), (2, 7))], []
    for kept in (False, True):
        model = small_model(np.random.default_rng(8), device.xp, dtype="float32", n_layers=1, p_drop=0.2)
        model.precision, copy = "float16", HalfCopy(model.parameters.data)
        with np.errstate(all="ignore"), copy.kept() if kept else mode("fast"):
            steps = train(model, batches, 3, scale=LossScale(2.0**20, 0, True), warmup_steps=5)
        found.append((losses(steps), bits(device, model.parameters.data)))
        assert [step.accepted for step in steps] == [False, True, True]
    assert found[0] == found[1]
    assert casts == [len(model.parameters.data)] * (2 * 3 + 1)
    assert bits(device, copy.array) == bits(device, cast.cast_parameter(model.parameters.data, copy.array.dtype))


def test_a_loss_after_a_run_sees_what_has_been_written(device, rng):
    device.takes_models()
    model, batch = small_model(rng, device.xp, dtype="float32"), random_batch(rng)
    model.precision, copy = "bfloat16", HalfCopy(model.parameters.data)
    with copy.kept():
        train(model, [batch], 2)
    found = []
    for _ in range(2):
        model.parameters["encoder.layers.0.self_attention.w_q"].data[...] += 1.0
        found.append(float(model.loss(batch)[0].data))
    other = small_model(rng, device.xp, dtype="float32")
    other.precision = "bfloat16"
    other.parameters.data[...] = model.parameters.data
    assert found[0] != found[1] == float(other.loss(batch)[0].data)


@pytest.mark.parametrize("mode_of_adam", ["simple", "fast"])
def test_adam_in_another_kernel_mode_leaves_no_old_copy(mode_of_adam, device, rng):
    device.takes_models()
    model, batch = small_model(rng, device.xp, dtype="float32"), random_batch(rng)
    model.precision, optimizer = "bfloat16", Adam(model.parameters)
    with HalfCopy(model.parameters.data).kept():
        before = float(model.loss(batch)[0].data)
        model.parameters.grad[...] = 1.0
        with mode(mode_of_adam):
            optimizer.step(0.1)
        after = float(model.loss(batch)[0].data)
    assert before != after == float(model.loss(batch)[0].data)


def test_a_trainer_casts_once_in_each_run_and_sees_what_is_restored(device, tmp_path, casts):
    """By a trainer that resumes, and by one that has been running."""
    device.takes_models()
    place = "cpu" if device.xp is np else "cuda"

    def trainer(name, updates):
        options = {"device": place, "threads": 1, "save_every": 1, "data": {"src_tokens": 16, "tgt_tokens": 16}}
        made = tiny_trainer(tmp_path / name, Corpus(tiny_corpus().train), updates=updates, **options)
        made.model.precision = "bfloat16"
        return made

    whole = trainer("whole", 3)
    whole.run()
    wanted, n = bits(device, whole.model.parameters.data), len(whole.model.parameters.data)
    load_checkpoint(checkpoint_of(tmp_path / "whole", 1)).restore(whole.model, whole.optimizer)
    whole.update = 1
    whole.run()
    assert bits(device, whole.model.parameters.data) == wanted
    trainer("resumed", 1).run()
    trainer("resumed", 3).run()
    assert_same_state(tmp_path / "whole", tmp_path / "resumed", 3)
    assert casts == [n] * 4


class TestGraphs:
    """With CUDA graphs, whose kernels find the copy where it was when they were captured."""

    @pytest.fixture
    def cupy(self, monkeypatch):
        return cupy_stand_in(monkeypatch)

    def test_replayed_updates_have_the_bits_of_updates_that_cast(self, cupy, rng, casts):
        one, other = ((4, 2), (3, 1)), ((3, 9), (7, 2))
        shapes, found = [(one, one), (one, other), (other, one), (one, one)], []
        batches = [[random_batch(rng, *shape) for shape in of_update] for of_update in shapes]
        for graphs in (False, True):
            model = small_model(np.random.default_rng(8), cupy, dtype="float32", n_layers=1, p_drop=0.2)
            model.precision, optimizer = "bfloat16", Adam(model.parameters)
            graphed_loss = GraphedLoss(model) if graphs else None
            accumulator = ParallelGradientAccumulator(model.parameters, graphed_loss=graphed_loss)
            options = {"config": TrainingConfig(warmup_steps=5), "accumulator": accumulator}
            with HalfCopy(model.parameters.data).kept() if graphs else mode("fast"):
                steps = [train_step(model, optimizer, each, update=u, **options) for u, each in enumerate(batches, 1)]
            found.append((losses(steps), model.parameters.data.get().tobytes()))
        assert found[0] == found[1]
        assert casts == [len(model.parameters.data)] * 9

    def test_a_graph_without_a_kept_copy_casts_for_itself(self, cupy, rng):
        model, batch = small_model(rng, cupy, dtype="float32", n_layers=1), random_batch(rng)
        model.precision, graphed_loss = "bfloat16", GraphedLoss(model)
        into, found = model.parameters.gradient_buffers(1)[0], []

        def loss() -> float:
            into.zero()
            return graphed_loss(batch, DropoutMasks(1), 0.1, into)[0].item()

        with HalfCopy(model.parameters.data).kept():
            found.extend(loss() for _ in range(3))
        model.parameters.data *= 1.5
        found.extend(loss() for _ in range(3))
        assert len(set(found[:3])) == len(set(found[3:])) == 1
        assert found[0] != found[3] == model.loss(batch, DropoutMasks(1))[0].item()
