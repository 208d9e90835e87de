"""Training that is shared by several processes, on one or many machines.

Here are communicators, which sum arrays over ranks; ``supervision`` starts, connects and watches the processes.
"""

from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.overlap import OverlappedAllReduce
from minitransformer.distributed.single import SINGLE_PROCESS
from minitransformer.distributed.stopping import CommonStop
from minitransformer.distributed.supervision.process_group import ProcessGroup, init_process_group

__all__ = [
    "SINGLE_PROCESS",
    "CommonStop",
    "Communicator",
    "OverlappedAllReduce",
    "ProcessGroup",
    "init_process_group",
]
