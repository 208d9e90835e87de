"""Every communicator keeps the contract of the interface, and has the bits of sums in the order of the ranks."""

import pytest
from contract import check
from rank_jobs import as_threads, by_mpi, launched

from minitransformer.distributed import SINGLE_PROCESS, local

pytestmark = pytest.mark.mpi


def test_the_contract_holds_for_a_process_alone():
    check(SINGLE_PROCESS)


@pytest.mark.parametrize("chunk", [local.CHUNK_BYTES, 1 << 13])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_contract_holds_for_ranks_that_share_memory(size, chunk, monkeypatch):
    monkeypatch.setattr(local, "CHUNK_BYTES", chunk)
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
