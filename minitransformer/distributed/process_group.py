"""How a process joins the other ranks of its job, and how all of them end together, well or badly."""

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.config import TrainingConfig
from minitransformer.distributed.communicator import SINGLE_PROCESS, Communicator
from minitransformer.distributed.local import LocalCommunicator, SharedMemory
from minitransformer.distributed.mpi import MpiCommunicator, abort, find_world
from minitransformer.distributed.nccl import NcclCommunicator, pass_id_by_file
from minitransformer.errors import ConfigError, RanksError

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

LAUNCHERS = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
}
"""Launcher: its variables of rank, number of ranks, and rank among the processes of one machine."""
MPI_SIGNS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
SLURM_JOB = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
"""Variables that together name one start of a job."""
LATER = 2.0
"""Seconds that a rank gives the one before it to report a failure that both have seen."""
BEFORE_ABORT = 0.3
"""Seconds for mpiexec to pass on the report: it drops what it has not read when a rank aborts."""


class ProcessGroup:
    """The ranks of a job as one of them sees them. Made by ``init_process_group`` or ``launch``.

    local_rank: the number of this rank among those of its machine
    shared: of ranks that ``launch`` started   world: of those that MPI started
    job: distinguishes this start of the job from any other, for ranks that neither of them started
    report: prints or passes on why this rank cannot continue
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        local_rank: int = 0,
        *,
        shared: SharedMemory | None = None,
        world: "Comm | None" = None,
        job: str = "",
        report: Callable[[str, int], object] = lambda message, code: None,
    ):
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self._shared, self._world, self.job, self._report = shared, world, job, report
        self._ranks: Communicator = SINGLE_PROCESS

    def use_own_gpu(self) -> None:
        """With several ranks, let CuPy use this one's GPU, modulo how many the machine has; it may have none."""
        if self.size == 1:
            return
        with suppress(ImportError, RuntimeError, ZeroDivisionError):  # what asks for the device reports what is missing
            import cupy

            cupy.cuda.Device(self.local_rank % cupy.cuda.runtime.getDeviceCount()).use()

    def connect(self, settings: TrainingConfig, on_gpu: bool = False) -> Communicator:
        """The communicator of all ranks: NCCL's between GPUs, else MPI's or that of one machine's shared memory.

        Raises:
            ConfigError: there are more ranks than micro-batches, nothing sums between CPUs, or sums on GPUs are to be
                in the order of the ranks.
            MissingPackageError: NCCL is not installed.
            RanksError: some ranks are on GPUs and others are not.
        """
        if self.size == 1:
            if self._shared is not None:
                self._shared.numbers[0] = 1  # has joined: from now on signals are passed on to it
            return self._ranks
        if settings.micro_batches < self.size:
            raise ConfigError(
                f"training.micro_batches must be at least the number of ranks, {self.size}, got "
                f"{settings.micro_batches}; start fewer, or set more micro-batches of fewer data.src_tokens and "
                "data.tgt_tokens"
            )
        if on_gpu and settings.deterministic_reduce:
            raise ConfigError(
                "training.deterministic_reduce must be false on GPUs, got true; NCCL adds in an order of its own"
            )
        if self._shared is not None:
            self._ranks = LocalCommunicator(self.rank, self._shared)
        elif self._world is not None:
            self._ranks = MpiCommunicator(self._world, settings.deterministic_reduce)
        elif not on_gpu:
            raise ConfigError(
                "ranks on CPUs must be started by `minitransformer launch` or, on several machines, by mpiexec or "
                "`srun --mpi=...` with mpi4py, got ranks without MPI; see docs/ranks.md (--device cuda says why a "
                "rank has no GPU)"
            )
        threading.Thread(target=self._watch, args=[settings.timeout], name="timeout", daemon=True).start()
        if self._ranks is not SINGLE_PROCESS:
            self._check_devices("GPU" if on_gpu else "CPU")
        if on_gpu:
            self._connect_gpus(settings)
        return self._ranks

    def _check_devices(self, own: str) -> None:
        """With device = auto one rank's GPU may be full or broken; it would wait for sums the others never join."""
        first, *others = self._ranks.gather_text(own)
        for rank, theirs in enumerate(others, start=1):
            if theirs != first:
                raise RanksError(
                    f"rank {rank} must be on a {first}, as rank 0 is, got a {theirs}; --device cuda says why a GPU "
                    "cannot be used, --device cpu uses none"
                )

    def _connect_gpus(self, settings: TrainingConfig) -> None:
        """Pass NCCL's id on through the communicator of the CPUs or, without one, through a file."""
        hosts = self._ranks
        nccl = NcclCommunicator(self.rank, self.size, self._shared)
        make_id = nccl.make_id if self.rank == 0 else None
        path = Path(settings.directory) / "nccl_id.json"
        if hosts is SINGLE_PROCESS:
            unique_id = pass_id_by_file(path, self.job, make_id, settings.timeout)
        else:
            unique_id = hosts.gather_text(make_id() if make_id else "")[0]
        nccl.number = hosts.number
        self._ranks = nccl
        nccl.join(unique_id)
        if hosts is SINGLE_PROCESS and self.rank == 0:
            path.unlink(missing_ok=True)

    def fail(self, message: str, code: int = 2) -> None:
        """Report why this rank cannot continue, and end it; under MPI, all ranks. Does not return."""
        if self._shared is None and self.rank > 0:
            time.sleep(LATER * min(self.rank, 3))
        try:
            self._report(message, code)
            sys.stderr.flush()
        finally:
            if self._world is not None:
                time.sleep(BEFORE_ABORT)
                abort(self._world, code)
            os._exit(code)

    def _watch(self, timeout: float) -> None:
        """In a thread of its own: end the job when this rank waits for the others for longer than ``timeout``.

        Time in which this process is stopped itself does not count.
        """
        pause, before, waited = min(1.0, timeout / 10), 0, 0.0
        while waited <= timeout:
            time.sleep(pause)
            awaited = self._ranks.awaited_sum()
            waited = waited + pause if awaited and awaited == before else 0.0
            before = awaited
        self.fail(self._ranks.explain_wait(timeout))

    @contextmanager
    def join(self, format_error: Callable[[BaseException], tuple[str, int]]) -> Iterator["ProcessGroup"]:
        """The block is the work of this rank. An exception that leaves it ends the job, with one line, which
        ``format_error`` returns with the exit code; in a single process it is raised."""
        try:
            yield self
            self._ranks.barrier()  # the others must be done as well
            self._ranks.close()
        except BaseException as error:
            if self.size == 1 and self._shared is None:
                raise
            message, code = format_error(error)
            self.fail(message if isinstance(error, RanksError) else f"rank {self.rank}: {message}", code)


def init_process_group(
    print_error: Callable[[str], object], rank: int | None = None, size: int | None = None, job: str | None = None
) -> ProcessGroup:
    """The group of the ranks that MPI or Slurm started, or that the three options describe; else of this process alone.

    print_error: prints the one line that the user reads

    Raises:
        ConfigError: the options or the launcher's variables do not say which of how many ranks this is.
        MissingPackageError: MPI started several ranks, and mpi4py cannot be used.
    """

    def report(message: str, code: int) -> None:
        print_error(message)

    if (rank, size, job) != (None, None, None):
        if rank is None or not size or not 0 <= rank < size or (size > 1 and not job):
            raise ConfigError(
                "ranks: --rank R --size N --job NAME must be given together, with R in 0..N - 1 and a NAME that no "
                f"earlier start had, got --rank {rank} --size {size} --job {job}"
            )
        return ProcessGroup(rank, size, rank, job=job or "", report=report)
    rank, size, local_rank = find_ranks()
    if size == 1:
        _check_alone()
        return ProcessGroup()
    has_mpi = any(sign in os.environ for sign in MPI_SIGNS)
    if has_mpi and (importlib.util.find_spec("mpi4py") is not None or "SLURM_JOB_ID" not in os.environ):
        if local_rank > 0 and importlib.util.find_spec("mpi4py") is None:
            raise SystemExit(2)  # the first process of this machine reports it
        return ProcessGroup(rank, size, local_rank, world=find_world(rank, size), report=report)
    job = ".".join(os.environ.get(name, "0") for name in SLURM_JOB)
    return ProcessGroup(rank, size, local_rank, job=job, report=report)


def find_ranks(environment: Mapping[str, str] = os.environ) -> tuple[int, int, int]:
    """(rank, number of ranks, rank on this machine) according to the variables of mpiexec, mpirun or srun.

    Raises:
        ConfigError: a variable is not such a number.
    """
    for names in LAUNCHERS.values():
        if all(name in environment for name in names[:2]):
            rank, size, local_rank = map(environment.get, names)
            if local_rank is None and environment.get("SLURM_PROCID") == rank:  # `srun --mpi=pmi2` sets PMI's first two
                local_rank = environment.get("SLURM_LOCALID")
            numbers = (rank, size, rank if local_rank is None else local_rank)
            if not all(number.isdecimal() for number in numbers) or int(numbers[0]) >= int(numbers[1]):
                raise ConfigError(f"ranks: {names[0]} must be in 0..{names[1]} - 1, got {numbers[0]} of {numbers[1]}")
            return tuple(map(int, numbers))
    return 0, 1, 0


def _check_alone() -> None:
    """ConfigError: there are several processes or machines, and no known launcher has numbered them."""
    for name, started in (("WORLD_SIZE", "ranks of torchrun"), ("SLURM_JOB_NUM_NODES", "a job of several machines")):
        if os.environ.get(name, "1") not in ("0", "1"):
            raise ConfigError(
                "ranks: must be started by `minitransformer launch`, mpiexec or srun, or with --rank, --size and "
                f"--job, got {started} ({name} is {os.environ[name]}) without a rank; see docs/ranks.md"
            )
