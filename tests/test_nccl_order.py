"""The calls of the NCCL communicator: the same order on all ranks, an event wherever two streams touch one memory.

No GPU is needed: a stand-in for CuPy computes the sums on the host and refuses what a GPU would get wrong in silence.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from contract import check, fractions, sum_in_order
from extras import need
from rank_jobs import LocalStore, Supervised, in_threads, wait_for
from recorded_cuda import Cuda, DeviceArray, Event, Mismatch, MissingEvent, World

from minitransformer.distributed import OverlappedAllReduce
from minitransformer.distributed import overlap as overlap_module
from minitransformer.distributed.nccl import NcclCommunicator
from minitransformer.distributed.timeouts import Timeouts
from minitransformer.errors import ShapeError


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
    store, world = LocalStore(), World(size, **options)

    def one(rank):
        cuda = Cuda(world, rank)
        work(communicator(rank, size, store, deterministic=deterministic, cupy=cuda, nccl=cuda.nccl), cuda)

    in_threads(size, one)
    return world


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_contract_holds_for_host_arrays_that_go_over_the_device(size, deterministic):
    def work(ranks, cuda):
        check(ranks, cuda.asarray, DeviceArray.get)
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


def test_a_rank_reports_in_which_collective_its_device_waits(monkeypatch):
    monkeypatch.setattr(Event, "done", False)
    cuda = Cuda(World(1), 0)
    ranks = NcclCommunicator(0, 1, LocalStore(), cupy=cuda, nccl=cuda.nccl)
    before, waits = ranks.progress()
    (first_ready, first_done), (second_ready, _) = queued(ranks, cuda, 2)
    assert (ranks.progress(), waits) == ((before, None), None)  # its own kernels come before the first
    first_ready.done = True
    assert ranks.progress()[0] == before + 1
    wait_for(lambda: ranks.progress()[1] > 0.05)
    first_done.done = True
    assert ranks.progress() == (before + 1, None)
    second_ready.done = True
    number, waits = ranks.progress()
    assert number == before + 2 and waits < 0.05 + 1  # counted anew


def test_two_threads_that_ask_at_the_same_moment_count_a_collective_once(monkeypatch):
    monkeypatch.setattr(Event, "done", property(lambda event: time.sleep(0.01) or True))
    cuda = Cuda(World(1), 0)
    ranks = NcclCommunicator(0, 1, LocalStore(), cupy=cuda, nccl=cuda.nccl)
    before, _ = ranks.progress()
    both = threading.Barrier(2, timeout=20)

    def ask(number):
        both.wait()
        return ranks.progress()

    for count in (3, 6, 9):  # odd at times: two that take in turn would find the queue empty
        queued(ranks, cuda, 3)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(ask, range(2))) == [(before + count, None)] * 2


def test_a_rank_whose_host_hangs_is_found_though_no_host_waits_for_it(monkeypatch):
    monkeypatch.setattr(Event, "done", False)
    job, world = Supervised(2, Timeouts(start=1.0)), World(2, meets=False)
    clients = [job.client(rank) for rank in range(2)]
    cudas = [Cuda(world, rank) for rank in range(2)]
    modules = [{"cupy": cuda, "nccl": cuda.nccl} for cuda in cudas]
    communicators = in_threads(2, lambda rank: NcclCommunicator(rank, 2, clients[rank], **modules[rank]))
    for rank, ranks in enumerate(communicators):
        events = queued(ranks, cudas[rank], 3 - rank)  # rank 1 never comes to the third
        for number, (ready, done) in enumerate(events):
            ready.done, done.done = True, number < 2
    wait_for(lambda: job.messages)
    assert job.messages == [
        "rank 1 must reach collective 4 within 1 s (training.timeout), got only to 3; the others wait there"
    ]
    wait_for(lambda: len(job.ends) == 2)
    for client in clients:
        client.leave()


def test_the_supervisor_frees_the_device_before_the_process_ends():
    job, world = Supervised(1), World(1)
    aborted = []
    client = job.client(0, end=lambda code: aborted.extend(world.aborted))
    cuda = Cuda(world, 0)
    NcclCommunicator(0, 1, client, cupy=cuda, nccl=cuda.nccl)
    threading.Thread(target=client.fail, args=("cause", 3), daemon=True).start()
    wait_for(lambda: aborted == [0])
    client.leave()
