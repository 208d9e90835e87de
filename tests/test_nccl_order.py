"""The calls of the NCCL communicator: the same order on all ranks, an event wherever two streams touch one memory.

No GPU is needed: a stand-in for CuPy computes the sums on the host and refuses what a GPU would get wrong in silence.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from contract import check, fractions, sum_in_order
from extras import need
from rank_jobs import in_threads
from recorded_cuda import Cuda, DeviceArray, Event, Mismatch, MissingEvent, World

from minitransformer.distributed import OverlappedAllReduce
from minitransformer.distributed import overlap as overlap_module
from minitransformer.distributed.nccl import NcclCommunicator
from minitransformer.errors import ShapeError


def prepared(communicator: type[NcclCommunicator], world: World, rank: int, **options) -> NcclCommunicator:
    cuda = Cuda(world, rank)
    ranks = communicator(rank, world.size, cupy=cuda, nccl=cuda.nccl, **options)
    ranks.cuda = cuda
    return ranks


def on_ranks(
    size: int,
    work,
    communicator: type[NcclCommunicator] = NcclCommunicator,
    deterministic: bool = False,
    **options,
) -> World:
    """work(communicator of a rank, its CUDA) in a thread for each rank; what one raises is raised.

    options: of the World
    """
    world = World(size, **options)
    unique_id = prepared(communicator, world, 0).make_id()

    def one(rank):
        ranks = prepared(communicator, world, rank, deterministic=deterministic)
        ranks.join(unique_id)
        work(ranks, ranks.cuda)

    in_threads(size, one)
    return world


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_contract_holds_for_host_arrays_that_go_over_the_device(size, deterministic):
    def work(ranks, cuda):
        check(ranks, cuda.asarray, DeviceArray.get, in_order=deterministic)
        ranks.close()

    on_ranks(size, work, deterministic=deterministic)


@pytest.mark.cuda
def test_the_id_that_nccl_itself_makes_reaches_every_rank():
    need("cupy", "nvidia.nccl")
    from cupy.cuda import nccl

    world = on_ranks(3, reduce_a_gradient, unique_id=nccl.get_unique_id())
    assert len(world.log) == 3
    with pytest.raises(TypeError):
        nccl.NcclCommunicator(1, tuple(world.unique_id), 0)  # what the stand-in refuses, the real one refuses too


def reduce_a_gradient(ranks, cuda) -> np.ndarray:
    """Backward writes a vector from the end to the beginning, each slice is begun at once, then Adam reads it."""
    vector = cuda.empty((12,), "float32")
    for start in (8, 4, 0):
        vector[start : start + 4][...] = fractions(ranks.rank, 12)[start : start + 4]
        ranks.start_all_reduce_sum(vector[start : start + 4])
    ranks.finish()
    return vector.get()


@pytest.mark.parametrize("deterministic", [False, True])
def test_slices_of_a_gradient_are_summed_while_others_are_written(deterministic):
    results = {}
    world = on_ranks(
        3, lambda ranks, cuda: results.update({ranks.rank: reduce_a_gradient(ranks, cuda)}), deterministic=deterministic
    )
    name = ("allGather", 4, "float32") if deterministic else ("allReduce", 4, "float32", "sum")
    assert world.log == [name] * 3
    for rank in range(3):
        np.testing.assert_array_equal(results[rank], sum_in_order(3, 12))


class NoReady(NcclCommunicator):
    def _queueing(self):
        return nullcontext()


class NoDone(NcclCommunicator):
    def finish(self):
        pass


class OwnStreamOnly(NcclCommunicator):
    """Records the event on the wrong stream."""

    def finish(self):
        done = self._cupy.cuda.Event(disable_timing=True)
        done.record(self._cupy.cuda.get_current_stream())
        self._cupy.cuda.get_current_stream().wait_event(done)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("communicator", [NoReady, NoDone, OwnStreamOnly])
def test_the_stand_in_finds_a_missing_event(communicator, deterministic):
    with pytest.raises(MissingEvent):
        on_ranks(2, reduce_a_gradient, communicator, deterministic)


def test_a_slice_that_is_written_after_it_was_begun_is_found():
    def work(ranks, cuda):
        vector = cuda.asarray(np.ones(4))
        ranks.start_all_reduce_sum(vector)
        vector[...] = 2.0

    with pytest.raises(MissingEvent):
        on_ranks(2, work)


def test_ranks_that_begin_slices_in_another_order_are_found():
    def work(ranks, cuda):
        long, short = cuda.asarray(np.ones(4)), cuda.asarray(np.ones(3))
        for array in (long, short) if ranks.rank == 0 else (short, long):
            ranks.start_all_reduce_sum(array)

    with pytest.raises(Mismatch):
        on_ranks(2, work)


def test_gradients_that_come_in_another_order_make_the_same_calls(monkeypatch):
    monkeypatch.setattr(overlap_module, "BUCKET_ELEMENTS", 4)

    def work(ranks, cuda):
        leaves = [SimpleNamespace(), SimpleNamespace()]
        slices = {id(leaves[0]): slice(0, 5), id(leaves[1]): slice(5, 11)}
        gradients = SimpleNamespace(vector=cuda.asarray(np.ones(11)), slices=slices, accumulate=lambda leaf, grad: None)
        total = OverlappedAllReduce(gradients, ranks).prepare_for_backward({id(leaf): 1 for leaf in leaves})
        for leaf in leaves if ranks.rank == 0 else leaves[::-1]:
            total.accumulate(leaf, None)
        total.finish()
        np.testing.assert_array_equal(gradients.vector.get(), np.full(11, 2.0))

    assert [call[1] for call in on_ranks(2, work).log] == [3, 4, 4]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64"])
def test_every_dtype_goes_to_nccl_under_its_own_name(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install minitransformer[dev]")
    world = on_ranks(1, lambda ranks, cuda: ranks.start_all_reduce_sum(cuda.empty((3,), name)))
    assert world.log == [("allReduce", 3, name, "sum")]


def test_arrays_that_nccl_cannot_add_are_refused():
    def work(ranks, cuda):
        with pytest.raises(ShapeError, match="dtype must be one that NCCL adds, got complex64"):
            ranks.start_all_reduce_sum(cuda.empty((3,), "complex64"))
        with pytest.raises(ShapeError, match="the array must be contiguous, got strides"):
            ranks.start_all_reduce_sum(cuda.empty((3, 2), "float32")[:, 0])

    on_ranks(1, work)


def queued(ranks: NcclCommunicator, cuda: Cuda, count: int) -> list[tuple[Event, Event]]:
    """The events of ``count`` collectives that the host queues: (it may begin, it has ended)."""
    before = len(cuda.events)
    for _ in range(count):
        ranks.start_all_reduce_sum(cuda.asarray(np.ones(1)))
    made = cuda.events[before:]
    return list(zip(made[::2], made[1::2], strict=True))


@pytest.fixture
def waiting_rank(monkeypatch):
    """A rank alone whose sums begin and end when a test says so."""
    monkeypatch.setattr(Event, "done", False)
    ranks = prepared(NcclCommunicator, World(1), 0)
    ranks.join(ranks.make_id())
    return ranks


def test_a_rank_waits_while_its_device_does_though_no_host_waits(waiting_rank):
    (first_ready, first_done), (second_ready, second_done) = queued(waiting_rank, waiting_rank.cuda, 2)
    assert waiting_rank.awaited_sum() == 0  # its own kernels come before the first
    first_ready.done = True
    assert waiting_rank.awaited_sum() == 1
    first_done.done = True
    assert waiting_rank.awaited_sum() == 0
    second_ready.done = True
    assert waiting_rank.awaited_sum() == 2
    second_done.done = True
    assert waiting_rank.awaited_sum() == 0


def test_the_rank_that_queues_no_more_sums_is_named(waiting_rank):
    """Of ranks that share a board; another one can only say that it waits."""
    queued(waiting_rank, waiting_rank.cuda, 2)
    assert "rank 0: sum 3 must end within 5 s (training.timeout)" in waiting_rank.explain_wait(5.0)
    board = SimpleNamespace(numbers=[3, 2, 3], busy=[0, 0, 0])
    waiting_rank.board = board
    assert waiting_rank.explain_wait(5.0).startswith(
        "rank 1 must reach sum 3 within 5 s (training.timeout), as the others"
    )
    board.numbers[2] = 1
    assert waiting_rank.explain_wait(5.0).startswith("ranks 1, 2 must reach sum 3")


def test_no_rank_counts_as_waiting_while_one_of_this_machine_is_busy(waiting_rank):
    waiting_rank.board = SimpleNamespace(numbers=[2], busy=[0])
    ((ready, _),) = queued(waiting_rank, waiting_rank.cuda, 1)
    ready.done = True
    with waiting_rank.busy():
        assert waiting_rank.awaited_sum() == 0
    assert waiting_rank.awaited_sum() == 1
