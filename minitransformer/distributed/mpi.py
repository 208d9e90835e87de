"""Ranks on the CPUs of one or several machines, started by mpiexec or srun: sums of host arrays with mpi4py."""

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.distributed.communicator import Communicator, add_in_order
from minitransformer.errors import ConfigError, MissingPackageError, TrainingError, install_hint

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Request

CHUNK_BYTES = 1 << 20
"""Bytes that each rank sends at a time where sums are in order: the copies stay small."""
SPIN, NAP = 0.002, 0.0002
"""Seconds for which MPI is polled without a pause until a sum has arrived, and seconds of each pause after that."""


class MpiCommunicator(Communicator):
    """MPI's own collectives on NumPy arrays.

    Where a rank may have to wait long for another, it polls with pauses instead of spinning as MPI would: the core is
    free for the others.

    world: MPI's communicator of all ranks, from ``find_world``
    deterministic: add in the order of the ranks, whatever MPI's own order; each rank then receives all arrays
    """

    def __init__(self, world: "Comm", deterministic: bool):
        from mpi4py import MPI

        super().__init__(world.rank, world.size)
        self._mpi, self._world, self._deterministic = MPI, world, deterministic

    def all_reduce_sum(self, array: np.ndarray) -> None:
        with self.waiting():
            try:
                if self._deterministic:
                    self._sum_in_order(array.reshape(-1))
                else:
                    self._wait(self._world.Iallreduce(self._mpi.IN_PLACE, array))
            except self._mpi.Exception as error:
                raise TrainingError(f"sum {self.number} over the ranks failed in MPI: {error}") from error

    def _sum_in_order(self, array: np.ndarray) -> None:
        step = CHUNK_BYTES // array.itemsize
        for start in range(0, array.size, step):
            part = array[start : start + step]
            gathered = np.empty((self.size, part.size), part.dtype)
            self._wait(self._world.Iallgather(part, gathered))
            add_in_order(gathered, part)

    def _wait(self, request: "Request") -> None:
        began = time.monotonic()
        while not request.Test():
            if time.monotonic() - began > SPIN:
                time.sleep(NAP)


def find_world(rank: int, size: int) -> "Comm":
    """MPI's communicator of all ranks, in which this process must be ``rank`` of ``size``.

    Raises:
        MissingPackageError: mpi4py is not installed, or there is no MPI library behind it.
        ConfigError: MPI's rank and size are not those of the launcher's variables.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingPackageError(
            f"ranks: mpi4py must be installed for ranks that MPI starts, got none; {install_hint('mpi')}"
        ) from error
    except RuntimeError as error:
        reason = str(error).split("\n")[0]
        raise MissingPackageError(
            f"ranks: mpi4py must find an MPI library, got none ({reason}); `pip install mpich` installs one"
        ) from error
    if not MPI.Is_initialized():  # mpi4py was configured not to do it on import
        MPI.Init_thread()
    world = MPI.COMM_WORLD
    if (world.rank, world.size) != (rank, size):
        library = " ".join(MPI.Get_library_version().strip("\0").split("\n")[0].split())
        raise ConfigError(
            f"ranks: MPI must know this process as rank {rank} of {size}, as its launcher does, got rank "
            f"{world.rank} of {world.size}; start it by the mpirun of the library that mpi4py uses, {library}"
        )
    return world


def abort(world: "Comm", code: int) -> None:
    """End all ranks that MPI started, from any thread."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the error has been printed; MPI would add lines of its own
    world.Abort(code)
