"""CUDA graphs: replayed micro-batches give the bits that they give kernel by kernel."""

import gc
import weakref

import numpy as np
import pytest
from cuda_on_cpu.device_arrays import cupy_stand_in
from cuda_on_cpu.streams import MemoryPool, Stream
from small_models import losses, random_batch, small_model
from tiny_run import assert_same_state, tiny_trainer

from minitransformer.autograd import detect_anomaly
from minitransformer.config import TrainingConfig
from minitransformer.errors import AnomalyError, BackendError, ConfigError, ShapeError
from minitransformer.kernels import HalfCopy
from minitransformer.kernels.cupy.launch import Counter
from minitransformer.kernels.profile import Profile, profiled
from minitransformer.nn import DropoutMasks
from minitransformer.optim import Adam, LossScale
from minitransformer.training import ParallelGradientAccumulator, train_step, trainer
from minitransformer.training.accumulation import loss_and_backward
from minitransformer.training.graphs import GraphedLoss

pytestmark = pytest.mark.cuda
SMALL = {"dtype": "float32", "n_layers": 1}
DROP = {"p_drop": 0.2, "p_drop_attention": 0.3, "p_drop_ffn": 0.25}


@pytest.fixture
def cupy(monkeypatch):
    return cupy_stand_in(monkeypatch)


def updates(model, batches, graphed_loss=None, scale=None) -> list:
    """An update of each of these lists of micro-batches."""
    adam, results = Adam(model.parameters), []
    accumulator = ParallelGradientAccumulator(model.parameters, scale=scale, graphed_loss=graphed_loss)
    for number, micro_batches in enumerate(batches, 1):
        options = {"config": TrainingConfig(warmup_steps=20, lr_scale=0.1), "accumulator": accumulator}
        results.append(train_step(model, adam, micro_batches, update=number, **options))
    return results


@pytest.mark.parametrize(("norm", "precision"), [("post", "float32"), ("pre", "bfloat16"), ("post", "float16")])
def test_replayed_updates_have_the_bits_of_those_made_kernel_by_kernel(norm, precision, cupy, rng):
    if precision == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install -e '.[dev]'")
    one, other = ((4, 2), (3, 1)), ((3, 9), (7, 2))
    shapes, found = [(one, one), (one, one), (one, one), (other,), (one, one)], {}
    batches = [[random_batch(rng, *shape) for shape in of_update] for of_update in shapes]
    for name in ("kernel by kernel", "graphs"):
        model = small_model(np.random.default_rng(8), cupy, norm=norm, **SMALL, **DROP)
        model.precision = precision
        graphed_loss = GraphedLoss(model) if name == "graphs" else None
        steps = updates(model, batches, graphed_loss, LossScale.for_precision(precision))
        found[name] = (losses(steps), model.parameters.data.get().tobytes())
    assert found["graphs"] == found["kernel by kernel"]
    assert len(set(found["graphs"][0])) == 10


def test_a_shape_that_comes_again_is_launched_as_one_graph(cupy, rng):
    model, launched = small_model(rng, cupy, **SMALL, **DROP), []
    graphed_loss = GraphedLoss(model)
    for _ in range(4):
        before = Counter.launches
        updates(model, [[random_batch(rng)]], graphed_loss)
        launched.append(Counter.launches - before)
    eager, captured, *replayed = launched
    assert eager == captured > 50
    assert max(replayed) < 10  # Adam and the norm of the gradient


def test_graphs_of_an_earlier_half_precision_copy_are_freed_with_it(cupy, rng):
    model = small_model(rng, cupy, **SMALL, **DROP)
    model.precision = "float16"
    graphed_loss, earlier = GraphedLoss(model), []
    for _ in range(2):
        copy = HalfCopy(model.parameters.data)
        with copy.kept():
            for _ in range(3):
                updates(model, [[random_batch(rng)]], graphed_loss)
        earlier.append(weakref.ref(copy))
        del copy
    gc.collect()
    assert [each() is None for each in earlier] == [True, False]


def test_what_an_update_leaves_for_later_ones_is_not_overwritten_by_graphs(cupy, rng):
    """A longer sentence makes a longer table of sinusoids: graphs before and after it read the right one."""
    short, long = ((9, 4), (70, 60)), ((130,), (3,))
    batches, found = [[random_batch(rng, *shape)] for shape in (short, short, long, short, long, long, short)], []
    for graphs in (False, True):
        model = small_model(np.random.default_rng(8), cupy, **SMALL, **DROP)
        found.append(losses(updates(model, batches, GraphedLoss(model) if graphs else None)))
    assert found[0] == found[1]


def test_what_cannot_be_captured_is_computed_kernel_by_kernel(cupy, rng):
    model, batch = small_model(rng, cupy, **SMALL), random_batch(rng)
    graphed_loss, options = GraphedLoss(model), (DropoutMasks(1), 0.1)
    into = model.parameters.gradient_buffers(1)[0]
    for _ in range(3):
        graphed_loss(batch, *options, into)

    def launches(sink) -> int:
        before = Counter.launches
        graphed_loss(batch, *options, sink)
        return Counter.launches - before

    assert launches(into) == 0
    assert launches(None) > 50  # gradients of the leaves themselves
    with profiled(Profile()):
        assert launches(into) > 50
    with detect_anomaly():
        assert launches(into) > 50
        model.parameters.data[0] = np.nan
        with pytest.raises(AnomalyError):
            launches(into)


def test_the_losses_of_a_replay_stay_when_the_graph_is_launched_again(cupy, rng):
    model, batches = small_model(rng, cupy, **SMALL), [random_batch(rng) for _ in range(4)]
    graphed_loss, into = GraphedLoss(model), model.parameters.gradient_buffers(1)[0]
    found = [graphed_loss(batch, DropoutMasks(1), 0.1, into) for batch in batches]
    for batch, (loss, nll) in zip(batches, found, strict=True):
        wanted_loss, wanted_nll = model.loss(batch, DropoutMasks(1))
        assert (loss.item(), nll.item()) == (wanted_loss.item(), wanted_nll.item())


def test_replays_check_the_ids_as_the_model_does(cupy, rng):
    model, batch = small_model(rng, cupy, **SMALL), random_batch(rng)
    graphed_loss, into = GraphedLoss(model), model.parameters.gradient_buffers(1)[0]
    for _ in range(3):
        graphed_loss(batch, DropoutMasks(1), 0.1, into)
    batch.tgt_in[0, 1] = 13
    with pytest.raises(ShapeError, match=r"tgt_in must hold ids in 0..12, got 0..13"):
        graphed_loss(batch, DropoutMasks(1), 0.1, into)


def test_a_capture_that_fails_says_so_and_leaves_no_trace(cupy, rng, monkeypatch):
    model, batch = small_model(rng, cupy, **SMALL), random_batch(rng)
    graphed_loss, into = GraphedLoss(model), model.parameters.gradient_buffers(1)[0]
    into.zero()
    graphed_loss(batch, DropoutMasks(1), 0.1, into)
    gradient = into.vector.get()

    def refused(stream):
        stream.captured = None
        raise RuntimeError("cudaErrorStreamCaptureInvalidated:\n operation failed")

    into.zero()
    with monkeypatch.context() as patch, pytest.raises(BackendError) as caught:
        patch.setattr(Stream, "end_capture", refused)
        graphed_loss(batch, DropoutMasks(1), 0.1, into)
    assert str(caught.value) == (
        "CUDA graph capture failed: 'cudaErrorStreamCaptureInvalidated: operation failed'; set execution.cuda_graphs "
        "to false"
    )
    model.loss(batch, DropoutMasks(1))[0].backward(0.1, into)
    assert into.vector.get().tobytes() == gradient.tobytes()


def test_memory_of_graphs_is_taken_from_what_others_do_not_use(cupy, rng, monkeypatch):
    """If the driver has none, the default pool gives back what is free; then it is out of memory, no other error."""
    model, batch = small_model(rng, cupy, **SMALL), random_batch(rng)
    graphed_loss, into, given_back = GraphedLoss(model), model.parameters.gradient_buffers(1)[0], []
    monkeypatch.setattr(MemoryPool, "free_all_blocks", lambda pool: given_back.append(pool))
    refusals = [RuntimeError("cudaErrorMemoryAllocation"), None]

    def memory(size):
        if refusals and (error := refusals.pop(0)):
            raise error

    monkeypatch.setattr(cupy.cuda, "Memory", memory)
    for _ in range(2):
        into.zero()
        graphed_loss(batch, DropoutMasks(1), 0.1, into)
    assert given_back == [MemoryPool.current] * 2  # before the capture, and when the driver had no more
    refusals += [RuntimeError("cudaErrorMemoryAllocation")] * 2
    other = random_batch(rng, (40,), (30,))
    into.zero()
    graphed_loss(other, DropoutMasks(1), 0.1, into)
    into.zero()
    with pytest.raises(MemoryError):
        graphed_loss(other, DropoutMasks(1), 0.1, into)


def test_what_waits_for_the_device_cannot_be_captured(cupy, rng, monkeypatch):
    model, batch = small_model(rng, cupy, **SMALL), random_batch(rng)
    graphed_loss, into, loss = GraphedLoss(model), model.parameters.gradient_buffers(1)[0], model.loss

    def waiting(*inputs):
        results = loss(*inputs)
        assert np.isfinite(float(results[0].data))
        return results

    monkeypatch.setattr(model, "loss", waiting)
    into.zero()
    graphed_loss(batch, DropoutMasks(1), 0.1, into)
    into.zero()
    with pytest.raises(BackendError, match="^CUDA graph capture failed: 'reading a value in a capture'; set"):
        graphed_loss(batch, DropoutMasks(1), 0.1, into)
    assert Stream.current.captured is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel_mode": "simple"}, 'with execution.kernels = "simple"'),
        (
            {"attention_window": 2, "p_drop_attention": 0.0},
            "with recurrent layers, convolutions or restricted attention",
        ),
    ],
)
def test_models_with_plain_rules_have_no_graphs(changes, message, cupy, rng):
    with pytest.raises(ConfigError, match=f"execution.cuda_graphs must be false {message}, got true"):
        GraphedLoss(small_model(rng, cupy, **SMALL, **changes))


def test_the_cpu_has_no_graphs(tmp_path):
    with pytest.raises(ConfigError, match="execution.cuda_graphs must be false on the CPU, got true"):
        tiny_trainer(tmp_path, cuda_graphs=True)


def test_training_computes_every_micro_batch_by_graphs_if_asked_to(tmp_path, monkeypatch):
    seen = []

    def graphed(model):
        return lambda *inputs: seen.append(model) or loss_and_backward(model, *inputs)

    monkeypatch.setattr(trainer, "GraphedLoss", graphed)
    for graphs in (True, False):
        tiny_trainer(tmp_path / str(graphs), cuda_graphs=graphs, updates=3, micro_batches=2).run()
    assert len(seen) == 6
    assert_same_state(tmp_path / "True", tmp_path / "False", 3)
