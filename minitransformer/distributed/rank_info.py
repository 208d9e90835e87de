"""Which of how many ranks this process is: every launcher says it in variables of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from minitransformer.errors import ConfigError

# Launcher: its names of rank, number of ranks, and rank on this machine.
VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
}
MPI_SIGNS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
ADDRESS, PORT = "MASTER_ADDR", "MASTER_PORT"
TORCHRUN_LISTENS = "TORCHELASTIC_USE_AGENT_STORE"  # torchrun itself has taken MASTER_PORT
LAUNCHED = "MINITRANSFORMER_LAUNCHED"


@dataclass(frozen=True)
class RankInfo:
    """A process among its like.

    Attributes:
        rank, size: this is number ``rank`` of ``size``, counted from 0.
        local_rank: the same among the processes of this machine.
        by_mpi: it was started by an MPI launcher, so MPI's own functions find the others.
        address: (host, port) where the hub of the ranks listens; None where no variable tells.
        launched: ``minitransformer launch`` started it, and has the hub.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    by_mpi: bool = False
    address: tuple[str, int] | None = None
    launched: bool = False


def find_rank_info(environment: Mapping[str, str] = os.environ) -> RankInfo:
    """The place that the variables of ``mpirun``, ``srun``, ``torchrun`` or ``minitransformer launch`` give.

    Raises:
        ConfigError: the variables contradict each other, or one is missing or no number.
    """
    places: dict[str, tuple[int, int, int]] = {}
    for launcher, names in VARIABLES.items():
        rank, size = (_number(environment, name) for name in names[:2])
        if launcher == "torchrun" and (rank is None) != (size is None):
            missing, given = names[:2] if rank is None else names[1::-1]
            raise ConfigError(f"ranks: {missing} must be set where {given} is, got no {missing}")
        if rank is None or size is None:
            continue
        if not 0 <= rank < size:
            raise ConfigError(f"ranks: {names[0]} must be in 0..{names[1]} - 1, got {rank} of {size}")
        local_rank = _number(environment, names[2])
        places[launcher] = (rank, size, rank if local_rank is None else local_rank)
    (first, place), *others = places.items() or [("", (0, 1, 0))]
    for launcher, (rank, size, _) in others:
        if (rank, size) != place[:2]:
            raise ConfigError(
                f"ranks: rank and world size must be those of the launcher, got {place[0]} of {place[1]} from {first} "
                f"({', '.join(VARIABLES[first][:2])}) and {rank} of {size} from {launcher}; unset one of them"
            )
    by_mpi = any(sign in environment for sign in MPI_SIGNS)
    return RankInfo(*place, by_mpi=by_mpi, address=_address(environment), launched=LAUNCHED in environment)


def is_first_on_its_machine(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the first process on its machine, as far as variables tell that may contradict each other."""
    names = (local if local in environment else rank for rank, _, local in VARIABLES.values())
    numbers = [int(environment[name]) for name in names if environment.get(name, "").isdecimal()]
    return max(numbers, default=0) == 0


def _address(environment: Mapping[str, str]) -> tuple[str, int] | None:
    host, port = environment.get(ADDRESS), _number(environment, PORT)
    if not host or port is None:
        return None
    if not 0 < port < 65536:
        raise ConfigError(f"ranks: {PORT} must be in 1..65535, got {port}")
    if environment.get(TORCHRUN_LISTENS) == "True":
        port += 1 if port < 65535 else -1
    return host, port


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise ConfigError(f"ranks: {name} must be a whole number, got {text!r}")
    return int(text)
