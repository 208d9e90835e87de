"""Training that is shared by several processes, called ranks, on one or many machines."""

from minitransformer.distributed.communicator import SINGLE_PROCESS, Communicator
from minitransformer.distributed.process_group import ProcessGroup, init_process_group

__all__ = ["SINGLE_PROCESS", "Communicator", "ProcessGroup", "init_process_group"]
