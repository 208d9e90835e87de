"""Ranks on CPUs that an MPI launcher started: sums of host arrays, in place, by mpi4py."""

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from minitransformer.distributed.communicator import Communicator, Store, add_in_order
from minitransformer.distributed.timeouts import TIMEOUTS
from minitransformer.errors import ConfigError, MissingPackageError, install_hint

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Request

SMALL_BYTES = 65536
"""Sums of at most this many bytes are quick, unless another rank is late."""


class MpiCommunicator(Communicator):
    """MPI's own collectives on NumPy arrays.

    Where a rank may have to wait long for another, it polls with pauses instead of spinning as MPI would: the core is
    free for the others.

    world: MPI's communicator of all ranks, from ``find_world``
    """

    def __init__(self, world: "Comm", store: Store, *, deterministic: bool = False):
        from mpi4py import MPI

        super().__init__(world.rank, world.size, store, deterministic=deterministic)
        self._mpi, self._world = MPI, world
        self._started: list[Request] = []

    def all_reduce_sum(self, array: np.ndarray) -> None:
        with self.waiting():
            if self.deterministic:
                gathered = np.empty((self.size, array.size), array.dtype)  # (size, n)
                self._world.Allgather(array, gathered)
                add_in_order(gathered, array.reshape(-1))
            elif array.nbytes <= SMALL_BYTES:
                self._wait(self._world.Iallreduce(self._mpi.IN_PLACE, array))
            else:
                self._world.Allreduce(self._mpi.IN_PLACE, array)

    def start_all_reduce_sum(self, array: np.ndarray) -> None:
        """MPI makes progress only while it is called, so each new sum also calls it for those before it."""
        if self.deterministic:
            self.all_reduce_sum(array)
            return
        self._started.append(self._world.Iallreduce(self._mpi.IN_PLACE, array))
        self._mpi.Request.Testall(self._started)

    def finish(self) -> None:
        with self.waiting():
            self._mpi.Request.Waitall(self._started)
        self._started.clear()

    def _wait(self, request: "Request") -> None:
        began = time.monotonic()
        while not request.Test():
            if time.monotonic() - began > TIMEOUTS.spin:
                time.sleep(TIMEOUTS.nap)


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
            f"ranks: mpi4py must find an MPI library, got none ({reason}); `pip install mpich` brings one"
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
    """End all ranks that MPI started, from any thread; the other ranks leave it to rank 0 for some seconds."""
    if world.rank != 0:
        time.sleep(TIMEOUTS.abort_delay)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the error has been printed; MPI would add lines of its own
    world.Abort(code)
