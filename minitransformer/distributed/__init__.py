"""Training that is shared out between processes, on one or many machines."""

from minitransformer.distributed.alone import ONE_RANK
from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.crew import Crew, join_ranks
from minitransformer.distributed.overlap import GradientSum
from minitransformer.distributed.stopping import CommonStop

__all__ = [
    "ONE_RANK",
    "CommonStop",
    "Communicator",
    "Crew",
    "GradientSum",
    "join_ranks",
]
