"""Work that is shared out: between threads of one process, and between processes on one or many machines."""

from minitransformer.distributed.alone import ONE_RANK
from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.crew import Crew, join_ranks
from minitransformer.distributed.overlap import GradientSum
from minitransformer.distributed.workers import ALONE, Workers, add_up, blocks_of

__all__ = [
    "ALONE",
    "ONE_RANK",
    "Communicator",
    "Crew",
    "GradientSum",
    "Workers",
    "add_up",
    "blocks_of",
    "join_ranks",
]
