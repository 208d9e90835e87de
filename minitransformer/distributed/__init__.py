"""Training that is shared out between processes, on one or many machines."""

from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.overlap import OverlappedAllReduce
from minitransformer.distributed.process_group import ProcessGroup, init_process_group
from minitransformer.distributed.single import SINGLE_PROCESS
from minitransformer.distributed.supervision.stopping import CommonStop

__all__ = [
    "SINGLE_PROCESS",
    "CommonStop",
    "Communicator",
    "ProcessGroup",
    "OverlappedAllReduce",
    "init_process_group",
]
