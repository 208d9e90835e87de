"""How a process joins the other ranks, and how all of them end together, well or badly."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from minitransformer.config import TrainingConfig
from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.mpi import MpiCommunicator, abort, find_world
from minitransformer.distributed.nccl import NcclCommunicator, use_gpu
from minitransformer.distributed.rank_info import RankInfo, find_rank_info, is_first_on_its_machine
from minitransformer.distributed.single import SINGLE_PROCESS
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.supervisor import Supervisor
from minitransformer.distributed.tcp import TcpCommunicator
from minitransformer.errors import ConfigError, MiniTransformerError, RanksError

ErrorFormatter = Callable[[BaseException], tuple[str, int]]
"""What a user is told of an exception, and the exit code that goes with it."""


class ProcessGroup:
    """The ranks of a job as one of them sees them: its rank, and its connection to the
    supervisor. Made by ``init_process_group``."""

    def __init__(self, place: RankInfo, speak: Callable[[str], object]):
        self.place = place
        self.member: SupervisorClient | None = None
        self._ranks: Communicator = SINGLE_PROCESS
        self._hub: Supervisor | None = None
        self._world = None
        if place.size == 1 and not place.launched:
            return
        address = place.address
        if address is None:
            address = self._address_by_mpi(speak)
        elif place.rank == 0 and not place.launched:
            self._hub = Supervisor(place.size, speak, port=address[1])
        self.member = SupervisorClient(place, address, speak)
        self.member.put(f"here/{place.rank}", "")
        if self._hub is not None:
            # mpi4py holds Python's lock while MPI begins: the hub, a thread of this process, must welcome all before.
            for rank in range(place.size):
                self.member.get(f"here/{rank}")
        if place.by_mpi and self._world is None and importlib.util.find_spec("mpi4py") is not None:
            self._world = find_world(place)
        if self._world is not None:
            self.member.stop, self.member.ends_all = partial(abort, self._world), True

    @classmethod
    def alone(cls) -> ProcessGroup:
        """The crew of a process that no launcher started."""
        return cls(RankInfo(), print)

    def use_own_gpu(self) -> None:
        """Let CuPy work on the GPU of this rank, if there are several."""
        if self.member is not None:
            use_gpu(self.place.local_rank)

    def connect(self, settings: TrainingConfig, on_gpu: bool = False) -> Communicator:
        """The engine that ``settings`` ask for: training.engine, training.reduction and training.deadline.

        on_gpu: the arrays are CuPy's

        Raises:
            ConfigError: the engine cannot work on these arrays, or there are more ranks than micro-batches.
            MissingPackageError: the engine needs a package that is not installed.
        """
        if self.member is None:
            return self._ranks
        place, fixed = self.place, settings.reduction == "fixed"
        self.member.set_deadline(settings.deadline)
        if settings.micro_batches < place.size:
            raise ConfigError(
                f"training.micro_batches must be at least the number of ranks, {place.size}, got "
                f"{settings.micro_batches}; an update is a fixed number of micro-batches, shared by the ranks"
            )
        engine = settings.engine
        if engine == "auto":
            engine = "nccl" if on_gpu else "mpi" if place.by_mpi else "naive"
        if on_gpu != (engine == "nccl"):
            raise ConfigError(
                f"training.engine must be {'nccl' if on_gpu else 'mpi or naive'} on {'a GPU' if on_gpu else 'CPUs'}, "
                f"got {engine}; leave it out or change training.device"
            )
        if engine == "nccl":
            self._ranks = NcclCommunicator(self.member, fixed)
        elif engine == "mpi":
            self._ranks = MpiCommunicator(self._world or find_world(place), self.member, fixed)
        else:
            self._ranks = TcpCommunicator(self.member)
        return self._ranks

    def leave(self) -> None:
        """All went well: wait for the others, then go."""
        if self.member is None:
            return
        self._ranks.barrier()
        self._ranks.close()
        self.member.leave()
        if self._hub is not None:
            self._hub.ended.wait(self._hub.watch.deadline)  # its thread must outlive the farewells of the others

    def _address_by_mpi(self, speak: Callable[[str], object]) -> tuple[str, int]:
        """Where the hub is, told by rank 0 through MPI: that needs no variables."""
        if not self.place.by_mpi:
            raise ConfigError(
                f"ranks: MASTER_ADDR and MASTER_PORT must be set for {self.place.size} ranks, got none; they are the "
                "address of rank 0's machine and a free port there"
            )
        self._world = find_world(self.place)
        hosts = self._world.allgather(platform.node())
        port = None
        if self.place.rank == 0:
            self._hub = Supervisor(self.place.size, speak)
            port = self._hub.port
        return ("127.0.0.1" if len(set(hosts)) == 1 else hosts[0]), self._world.bcast(port)


@contextmanager
def init_process_group(speak: Callable[[str], object], explain: ErrorFormatter) -> Iterator[ProcessGroup]:
    """Join the ranks that the launcher's variables tell of; alone, nothing happens.

    An exception that leaves the block ends all ranks, with one message from whoever watches: it does not come out of
    here, the process ends. Alone, it comes out.

    speak: prints the one line that the user is told
    """
    try:
        process_group = ProcessGroup(find_rank_info(), speak)
    except MiniTransformerError as error:
        if isinstance(error, RanksError) or is_first_on_its_machine():
            raise
        raise SystemExit(2) from error  # the first process of this machine has found the same fault, and tells of it
    try:
        yield process_group
        process_group.leave()
    except BaseException as error:
        if process_group.member is None:
            raise
        cause, code = explain(error)
        process_group.member.fail(cause, code, by_all=isinstance(error, RanksError))
