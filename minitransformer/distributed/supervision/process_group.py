"""How a process joins the other ranks, and how all of them end together, well or badly."""

import importlib.util
import os
import platform
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minitransformer.config import TrainingConfig
from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.mpi import MpiCommunicator, abort, find_world
from minitransformer.distributed.nccl import NcclCommunicator, use_gpu
from minitransformer.distributed.single import SINGLE_PROCESS
from minitransformer.distributed.supervision.client import SupervisorClient
from minitransformer.distributed.supervision.rank_info import (
    LOOPBACK,
    RankInfo,
    find_rank_info,
    is_first_on_its_machine,
)
from minitransformer.distributed.supervision.supervisor import Supervisor
from minitransformer.distributed.tcp import TcpCommunicator
from minitransformer.errors import ConfigError, MiniTransformerError, RanksError


class ProcessGroup:
    """The ranks of a job as one of them sees them: which it is, and its connections. Made by ``init_process_group``.

    Attributes:
        rank_info: which of how many ranks this process is.
        client: the connection to the supervisor; None for a process that no launcher started.
    """

    def __init__(self, rank_info: RankInfo, print_error: Callable[[str], object]):
        self.rank_info = rank_info
        self.client: SupervisorClient | None = None
        self._ranks: Communicator = SINGLE_PROCESS
        self._supervisor: Supervisor | None = None
        self._world = None
        rank, size = rank_info.rank, rank_info.size
        if size == 1 and not rank_info.launched:
            return
        host, port, self._token = self._meet_by_mpi() if rank_info.address is None else self._meet_by_variables()
        if rank == 0 and not rank_info.launched:
            self._supervisor = Supervisor(size, print_error, host=_own_address(host), port=port, token=self._token)
            port = self._supervisor.port
        if self._world is not None:
            port = self._world.bcast(port)
        self.client = SupervisorClient(rank_info, (host, port), print_error, token=self._token, end=self._end)
        if rank_info.by_mpi and self._world is None and importlib.util.find_spec("mpi4py") is not None:
            # mpi4py holds the GIL while MPI begins: all must have reached the supervisor, a thread of rank 0, before.
            self.client.put(f"here/{rank}", "")
            for other in range(size if self._supervisor is not None else 0):
                self.client.get(f"here/{other}")
            self._world = find_world(rank, size)

    @classmethod
    def single(cls) -> "ProcessGroup":
        """The group of a process that no launcher started."""
        return cls(RankInfo(), print)

    def use_own_gpu(self) -> None:
        """Let CuPy work on the GPU of this rank, if there are several."""
        if self.client is not None:
            use_gpu(self.rank_info.local_rank)

    def connect(self, settings: TrainingConfig, on_gpu: bool = False) -> Communicator:
        """The communicator that ``settings`` ask for: training.communicator, deterministic_reduce and timeout.

        on_gpu: the arrays are CuPy's

        Raises:
            ConfigError: the communicator cannot work on these arrays, or there are more ranks than micro-batches.
            MissingPackageError: the communicator needs a package that is not installed.
        """
        if self.client is None:
            return self._ranks
        self.client.set_timeout(settings.timeout)
        rank, size = self.rank_info.rank, self.rank_info.size
        name = choose_communicator(settings, self.rank_info, on_gpu)
        if name == "tcp":
            self._ranks = TcpCommunicator(rank, size, self.client, token=self._token, host=self.client.host)
        elif name == "mpi":
            world = self._world or find_world(rank, size)
            self._ranks = MpiCommunicator(world, self.client, deterministic=settings.deterministic_reduce)
        else:
            self._ranks = NcclCommunicator(rank, size, self.client, deterministic=settings.deterministic_reduce)
        return self._ranks

    def leave(self) -> None:
        """Wait for the other ranks to be done as well, then disconnect."""
        if self.client is None:
            return
        self._ranks.barrier()
        self._ranks.close()
        self.client.leave()
        if self._supervisor is not None:  # its thread must run until the others have left
            self._supervisor.ended.wait(self._supervisor.monitor.timeout)

    def _meet_by_variables(self) -> tuple[str, int, str]:
        """Where the supervisor is according to the launcher's variables, and the token."""
        (host, port), token = self.rank_info.address, self.rank_info.token
        if host != LOOPBACK and not token:
            raise ConfigError(
                f"ranks: MINITRANSFORMER_TOKEN must be set, to the same secret on all machines, for ranks that meet at "
                f"{host}, got none; export MINITRANSFORMER_TOKEN=$(openssl rand -hex 32) where they are started, or "
                "MASTER_ADDR=127.0.0.1 on one machine"
            )
        return host, port, token

    def _meet_by_mpi(self) -> tuple[str, int, str]:
        """The same where MPI passes it on; the port is free, and rank 0 draws the token."""
        info = self.rank_info
        if not info.by_mpi:
            raise ConfigError(
                f"ranks: MASTER_ADDR and MASTER_PORT must be set for {info.size} ranks, got none; they are the "
                "address of rank 0's machine and a free port there"
            )
        self._world = find_world(info.rank, info.size)
        hosts = self._world.allgather(platform.node())
        token = self._world.bcast(info.token or secrets.token_hex())
        return LOOPBACK if len(set(hosts)) == 1 else hosts[0], 0, token

    def _end(self, code: int) -> None:
        """End this process; under MPI, all processes."""
        if self._world is None:
            os._exit(code)
        abort(self._world, code)


def choose_communicator(settings: TrainingConfig, rank_info: RankInfo, on_gpu: bool) -> str:
    """``"tcp"``, ``"mpi"`` or ``"nccl"``, as ``settings`` ask for it; ConfigError where that cannot be."""
    if settings.micro_batches < rank_info.size:
        raise ConfigError(
            f"training.micro_batches must be at least the number of ranks, {rank_info.size}, got "
            f"{settings.micro_batches}; an update is a fixed number of micro-batches, shared by the ranks"
        )
    name = settings.communicator
    if name == "auto":
        name = "nccl" if on_gpu else "mpi" if rank_info.by_mpi else "tcp"
    if on_gpu != (name == "nccl"):
        raise ConfigError(
            f"training.communicator must be {'nccl' if on_gpu else 'mpi or tcp'} on {'a GPU' if on_gpu else 'CPUs'}, "
            f"got {name}; leave it out or change execution.device"
        )
    return name


def _own_address(host: str) -> str:
    """The address at which rank 0 listens, if the others reach it as ``host``; "" stands for all addresses."""
    if host == LOOPBACK:
        return host
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise ConfigError(
            f"ranks: MASTER_ADDR must be an address of rank 0's machine, got {host} ({error.strerror or error})"
        ) from error
    return "" if address.startswith("127.") else address  # a machine's own name may mean loopback, to itself alone


@contextmanager
def init_process_group(
    print_error: Callable[[str], object], format_error: Callable[[BaseException], tuple[str, int]]
) -> Iterator[ProcessGroup]:
    """Join the ranks that the launcher's variables describe; a single process has nothing to join.

    An exception that leaves the block ends all ranks, with one message from the supervisor: it is not raised here, the
    process ends. In a single process it is raised.

    print_error: prints the one line that the user reads
    format_error: returns that line for an exception, and the exit code
    """
    try:
        process_group = ProcessGroup(find_rank_info(), print_error)
    except MiniTransformerError as error:
        if isinstance(error, RanksError) or is_first_on_its_machine():
            raise
        raise SystemExit(2) from error  # the first process of this machine has found the same fault, and reports it
    try:
        yield process_group
        process_group.leave()
    except BaseException as error:
        if process_group.client is None:
            raise
        cause, code = format_error(error)
        process_group.client.fail(cause, code, by_all=isinstance(error, RanksError))
