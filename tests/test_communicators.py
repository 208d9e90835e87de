"""Every communicator keeps the contract of the interface, and has the bits of sums in the order of the ranks."""

import numpy as np
import pytest
from contract import check, fractions, sum_in_order
from rank_jobs import as_threads, by_mpi, launched
from small_models import random_batch, small_model

from minitransformer.config import TrainingConfig
from minitransformer.distributed import SINGLE_PROCESS, OverlappedAllReduce, local
from minitransformer.distributed import overlap as overlap_module
from minitransformer.distributed.communicator import Communicator
from minitransformer.nn.module import Gradients
from minitransformer.optim import Adam
from minitransformer.training import GradientAccumulator
from minitransformer.training.step import train_step

pytestmark = pytest.mark.mpi


def test_the_contract_holds_for_a_process_alone():
    check(SINGLE_PROCESS)


@pytest.mark.parametrize("chunk", [local.CHUNK, 1 << 13])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_contract_holds_for_ranks_that_share_memory(size, chunk, monkeypatch):
    monkeypatch.setattr(local, "CHUNK", chunk)
    monkeypatch.setattr(local, "SMALL", 1 << 12)  # so that arrays of one chunk and of many go both ways
    as_threads(size, check)


@pytest.mark.parametrize("size", [2, 4])
def test_the_contract_holds_for_processes_that_launch_started(size):
    ended = launched(size, "contract.py", "local")
    assert (ended.code, ended.lines) == (0, [f"{size} ranks keep the contract by LocalCommunicator"])


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("order", ["fast", "deterministic"])
def test_the_contract_holds_for_ranks_that_mpi_started(order, size):
    ended = by_mpi(size, "contract.py", order)
    assert (ended.code, ended.lines) == (0, [f"{size} ranks keep the contract by MpiCommunicator"])


def test_the_order_of_a_sum_can_be_seen_in_its_bits():
    """Else the order of the ranks would be tested with numbers that show no difference."""
    backwards = fractions(2, 5000) + fractions(1, 5000) + fractions(0, 5000)
    assert (backwards != sum_in_order(3, 5000)).any()


class Recorder(Communicator):
    """Notes which slices are begun."""

    overlaps = True

    def __init__(self):
        super().__init__(0, 2)
        self.begun: list[np.ndarray] = []

    def all_reduce_sum(self, array):
        self.begun.append(array)

    def finish(self):
        self.begun.append(None)


class Doubled(Recorder):
    """Two ranks with equal gradients. Notes the number of gradients that had come when a slice was begun."""

    def __init__(self, log: list):
        super().__init__()
        self.log = log

    def start_all_reduce_sum(self, array):
        self.log.append(("begun", array, array.copy()))


@pytest.mark.parametrize("overlap", [True, False])
def test_slices_are_begun_while_backward_runs_and_none_changes_after_that(rng, monkeypatch, overlap):
    monkeypatch.setattr(overlap_module, "BUCKET_ELEMENTS", 64)
    log: list[tuple] = []
    model, batches = small_model(rng), [random_batch(rng), random_batch(rng)]
    add = Gradients.accumulate

    def logged(gradients, leaf, grad):
        log.append(("came", leaf))
        add(gradients, leaf, grad)

    monkeypatch.setattr(Gradients, "accumulate", logged)
    accumulator = GradientAccumulator(
        model.parameters, ranks=Doubled(log), overlap=overlap, tokens_of_update=lambda update: (9, 9)
    )
    train_step(model, Adam(model.parameters), batches, update=1, config=TrainingConfig(), accumulator=accumulator)
    kinds = [entry[0] for entry in log]
    last_came = max(number for number, kind in enumerate(kinds) if kind == "came")
    while_backward = kinds[:last_came].count("begun")
    n_slices = -(-len(model.parameters.grad) // 64)
    assert kinds.count("begun") == n_slices
    assert (while_backward > n_slices / 2) if overlap else (while_backward == 0)
    for kind, *arrays in log:
        if kind == "begun":
            np.testing.assert_array_equal(*arrays)  # the slice now, and as it was


class Slices:
    """A gradient vector with leaves of the given sizes, one after the other."""

    def __init__(self, *sizes: int):
        self.vector = np.arange(sum(sizes))
        ends = np.cumsum(sizes)
        self.leaves = [np.empty(0) for _ in sizes]
        self.slices = {
            id(leaf): slice(end - size, end) for leaf, size, end in zip(self.leaves, sizes, ends, strict=True)
        }
        self.added: list[int] = []

    def accumulate(self, leaf, grad):
        self.added.append(grad)


@pytest.fixture
def recorded(monkeypatch):
    """A sum over slices of four elements, of three leaves with 6, 5 and 3; the first is used twice."""
    monkeypatch.setattr(overlap_module, "BUCKET_ELEMENTS", 4)
    gradients, ranks = Slices(6, 5, 3), Recorder()
    first, second, third = gradients.leaves
    total = OverlappedAllReduce(gradients, ranks).prepare_for_backward(
        {id(first): 2, id(second): 1, id(third): 1, id(object()): 5}
    )
    return gradients, ranks, total


def begun(ranks) -> list[list[int]]:
    return [None if each is None else each.tolist() for each in ranks.begun]


def test_a_slice_is_begun_when_all_in_it_and_behind_it_is_final(recorded):
    gradients, ranks, total = recorded
    first, second, third = gradients.leaves
    total.accumulate(first, 1)  # a tied matrix, used at the end of the model and at its beginning
    assert begun(ranks) == []
    total.accumulate(third, 2)
    assert begun(ranks) == [[12, 13]]  # the slice before it holds a part of the second leaf
    total.accumulate(second, 3)
    assert begun(ranks) == [[12, 13], [8, 9, 10, 11]]
    total.accumulate(first, 4)
    assert begun(ranks) == [[12, 13], [8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]
    total.finish()
    assert begun(ranks)[4:] == [None]
    assert gradients.added == [1, 2, 3, 4]


def test_slices_are_the_same_in_whatever_order_gradients_come(recorded):
    gradients, ranks, total = recorded
    first, second, third = gradients.leaves
    for leaf in (second, first, first):
        total.accumulate(leaf, 0)
    assert begun(ranks) == []  # the last leaf is not final
    total.accumulate(third, 0)
    total.finish()
    assert begun(ranks) == [[12, 13], [8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3], None]


def test_gradients_that_backward_never_adds_are_summed_at_the_end(recorded):
    gradients, ranks, total = recorded
    total.accumulate(gradients.leaves[2], 0)
    total.finish()
    assert begun(ranks) == [[12, 13], [8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3], None]
