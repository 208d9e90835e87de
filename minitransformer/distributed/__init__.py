"""Work that is shared out: between threads of one process."""

from minitransformer.distributed.workers import ALONE, Workers, add_up, blocks_of

__all__ = ["ALONE", "Workers", "add_up", "blocks_of"]
