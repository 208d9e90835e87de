"""Rank and world size of this process, from the environment variables of whichever launcher started it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from minitransformer.errors import ConfigError, quoted

VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
}
"""Launcher: its names of rank, number of ranks, and the same two among the processes of one machine."""

MPI_SIGNS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
SLURM_MACHINES = "SLURM_STEP_NUM_NODES"
ADDRESS, PORT, TOKEN = "MASTER_ADDR", "MASTER_PORT", "MINITRANSFORMER_TOKEN"
TORCHRUN_LISTENS = "TORCHELASTIC_USE_AGENT_STORE"  # torchrun itself has taken MASTER_PORT
LAUNCHED = "MINITRANSFORMER_LAUNCHED"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RankInfo:
    """A process among the ranks of its job.

    Attributes:
        rank, size: this is number ``rank`` of ``size``, counted from 0.
        local_rank: the same among the processes of this machine.
        by_mpi: it was started by an MPI launcher, so MPI's own functions find the others.
        address: (host, port) where the supervisor of the ranks listens; None if no variable is set. The host is
            127.0.0.1 if no other machine takes part.
        launched: ``minitransformer launch`` started it, and supervises.
        token: the secret by which the processes of the job know each other; "": none is set.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    by_mpi: bool = False
    address: tuple[str, int] | None = None
    launched: bool = False
    token: str = field(default="", repr=False)


def find_rank_info(environment: Mapping[str, str] = os.environ) -> RankInfo:
    """The rank according to the variables of ``mpirun``, ``srun``, ``torchrun`` or ``minitransformer launch``.

    Raises:
        ConfigError: the variables contradict each other, or one is missing or not a number.
    """
    found: dict[str, tuple[int, int]] = {}
    for launcher, names in VARIABLES.items():
        rank, size = (_number(environment, name) for name in names[:2])
        if launcher == "torchrun" and (rank is None) != (size is None):
            missing, given = names[:2] if rank is None else names[1::-1]
            raise ConfigError(f"ranks: {missing} must be set where {given} is, got no {missing}")
        if rank is None or size is None:
            continue
        if not 0 <= rank < size:
            raise ConfigError(f"ranks: {names[0]} must be in 0..{names[1]} - 1, got {rank} of {size}")
        found[launcher] = (rank, size)
    (first, (rank, size)), *others = found.items() or [("", (0, 1))]
    for launcher, other in others:
        if other != (rank, size):
            raise ConfigError(
                f"ranks: rank and world size must be those of the launcher, got {rank} of {size} from {first} "
                f"({', '.join(VARIABLES[first][:2])}) and {other[0]} of {other[1]} from {launcher}; unset one of them"
            )
    local_rank, local_size = (_number(environment, name) for name in VARIABLES.get(first, ("",) * 4)[2:])
    on_one_machine = local_size == size or environment.get(SLURM_MACHINES) == "1"
    return RankInfo(
        rank,
        size,
        rank if local_rank is None else local_rank,
        by_mpi=any(sign in environment for sign in MPI_SIGNS),
        address=_address(environment, on_one_machine),
        launched=LAUNCHED in environment,
        token=environment.get(TOKEN, ""),
    )


def is_first_on_its_machine(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this may be the first process on its machine, according to variables that may contradict each other.

    RANK without LOCAL_RANK was set by hand, perhaps on a machine of its own, so it says nothing.
    """
    names = (rank if rank != "RANK" and local not in environment else local for rank, _, local, _ in VARIABLES.values())
    numbers = [int(environment[name]) for name in names if environment.get(name, "").isdecimal()]
    return max(numbers, default=0) == 0


def without_rank(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that make a process a rank: for ranks of another job."""
    names = {*MPI_SIGNS, *(name for launcher in VARIABLES.values() for name in launcher)}
    return {name: value for name, value in environment.items() if name not in names}


def _address(environment: Mapping[str, str], on_one_machine: bool) -> tuple[str, int] | None:
    host, port = environment.get(ADDRESS), _number(environment, PORT)
    if not host or port is None:
        return None
    if not 0 < port < 65536:
        raise ConfigError(f"ranks: {PORT} must be in 1..65535, got {port}")
    try:
        host.encode("idna")  # as a socket does
    except UnicodeError:
        raise ConfigError(f"ranks: {ADDRESS} must be a host name or an address, got {quoted(host)}") from None
    if environment.get(TORCHRUN_LISTENS) == "True":
        port += 1 if port < 65535 else -1
    if on_one_machine or host == "localhost" or host.startswith("127."):
        host = LOOPBACK
    return host, port


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or len(text) > 18:
        raise ConfigError(f"ranks: {name} must be a whole number, got {quoted(text)}")
    return int(text)
