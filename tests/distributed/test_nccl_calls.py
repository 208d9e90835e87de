"""The calls of the NCCL communicator: the same on all ranks, on the current stream; and who waits.

No GPU is needed: a stand-in for CuPy computes the sums on the host.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from contract import check
from extras import need
from rank_jobs import in_threads
from recorded_cuda import KINDS, Collectives, Cuda, DeviceArray, Mismatch, NcclError, Stream, World

from minitransformer.distributed.nccl import NcclCommunicator
from minitransformer.errors import BackendError, ShapeError


def prepared(world: World, rank: int) -> NcclCommunicator:
    cuda = Cuda(world, rank)
    ranks = NcclCommunicator(rank, world.size, cupy=cuda, nccl=cuda.nccl)
    ranks.cuda = cuda
    return ranks


def on_ranks(size: int, work, **options) -> World:
    """work(communicator of a rank, its CUDA) in a thread for each rank; what one raises is raised.

    options: of the World
    """
    world = World(size, **options)
    unique_id = prepared(world, 0).make_id()

    def one(rank):
        ranks = prepared(world, rank)
        ranks.join(unique_id)
        work(ranks, ranks.cuda)

    in_threads(size, one)
    return world


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_contract_holds_for_arrays_of_the_device_and_of_the_host(size):
    def work(ranks, cuda):
        check(ranks, cuda.asarray, DeviceArray.get, in_order=False)
        ranks.close()

    on_ranks(size, work)


def test_a_sum_is_queued_on_the_stream_that_is_current():
    """So it waits for what was queued before it, and what is queued after it waits for the sum."""

    def work(ranks, cuda):
        vector = cuda.asarray(np.full(4, ranks.rank))
        with cuda.cuda.Stream():
            ranks.all_reduce_sum(vector)
        np.testing.assert_array_equal(vector.get(), np.full(4, 1))

    assert on_ranks(2, work).log == [("allReduce", 4, KINDS["int64"], 0)]


def test_ranks_that_sum_in_another_order_are_found():
    def work(ranks, cuda):
        long, short = cuda.asarray(np.ones(4)), cuda.asarray(np.ones(3))
        for array in (long, short) if ranks.rank == 0 else (short, long):
            ranks.all_reduce_sum(array)

    with pytest.raises(Mismatch):
        on_ranks(2, work)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64"])
def test_every_dtype_goes_to_nccl_under_its_own_name(name):
    if name == "bfloat16":
        need("ml_dtypes")
    world = on_ranks(1, lambda ranks, cuda: ranks.all_reduce_sum(cuda.empty((3,), name)))
    assert world.log == [("allReduce", 3, KINDS[name], 0)]


def test_arrays_that_nccl_cannot_add_are_refused():
    def work(ranks, cuda):
        with pytest.raises(ShapeError, match="dtype must be one that NCCL adds, got complex64"):
            ranks.all_reduce_sum(cuda.empty((3,), "complex64"))
        with pytest.raises(ShapeError, match="the array must be contiguous, got strides"):
            ranks.all_reduce_sum(cuda.empty((3, 2), "float32")[:, 0])

    on_ranks(1, work)


REFUSALS = {
    1: "NCCL_ERROR_UNHANDLED_CUDA_ERROR: .*; NCCL must be that for CuPy's CUDA, nvidia-nccl-cu13, the driver no older",
    2: "NCCL_ERROR_SYSTEM_ERROR: .*; machines must reach each other: NCCL_SOCKET_IFNAME names the network",
    5: "NCCL_ERROR_INVALID_USAGE: .*; each rank needs a GPU of its own: .* than it has GPUs, here 1",
    6: "NCCL_ERROR_REMOTE_ERROR: .*; machines must reach each other: NCCL_SOCKET_IFNAME names the network",
    7: "status 7; machines must reach each other: NCCL_SOCKET_IFNAME names the network",
}


@pytest.mark.parametrize("call", ["__init__", "allReduce"])
@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_of_nccl_comes_with_what_to_look_at(status, call, monkeypatch):
    """5: two ranks have one GPU. 1: an NCCL for another CUDA, an old driver or no memory.

    Since version 2.22 NCCL connects the GPUs at the first sum.
    """

    def refuse(*_):
        raise NcclError(status)

    ranks = prepared(World(1), 0)
    monkeypatch.setattr(Collectives, call, refuse)
    with pytest.raises(BackendError, match=f"^ranks: NCCL must connect the GPUs, got {REFUSALS[status]}[^\n]*$"):
        ranks.join(ranks.make_id())
        ranks.all_reduce_sum(ranks.cuda.asarray(np.ones(3)))


@pytest.fixture
def waiting_rank(monkeypatch):
    """A rank alone within a sum, of which the other ranks are still missing: ``answers`` has what it said then."""
    ranks, answers = prepared(World(1), 0), []
    ranks.join(ranks.make_id())
    monkeypatch.setattr(Collectives, "allReduce", lambda *_: answers.append(ranks.awaited_sum()))
    ranks.answers = answers
    return ranks


def test_a_rank_waits_within_a_sum_and_not_while_its_own_kernels_run(waiting_rank, monkeypatch):
    before = []
    monkeypatch.setattr(Stream, "synchronize", lambda _: before.append(waiting_rank.awaited_sum()))
    for _ in range(2):
        waiting_rank.all_reduce_sum(waiting_rank.cuda.asarray(np.ones(1)))
    assert waiting_rank.answers == [2, 3]  # 1 was to join
    assert before == [0, 2, 0, 3] and waiting_rank.awaited_sum() == 0


def test_the_rank_that_comes_to_no_more_sums_is_named(waiting_rank):
    """Of ranks that share a board; another one can only say that it waits."""
    for _ in range(2):
        waiting_rank.all_reduce_sum(waiting_rank.cuda.asarray(np.ones(1)))
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
    with waiting_rank.busy():
        waiting_rank.all_reduce_sum(waiting_rank.cuda.asarray(np.ones(1)))
    waiting_rank.all_reduce_sum(waiting_rank.cuda.asarray(np.ones(1)))
    assert waiting_rank.answers == [0, 3]
