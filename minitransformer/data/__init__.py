"""Data sets for training: their sources, licences and checksums, and how to download them."""

from minitransformer.data.download import copy_from, get
from minitransformer.data.registry import DATA_SETS, DataFile, DataSet, find

__all__ = ["DATA_SETS", "DataFile", "DataSet", "copy_from", "find", "get"]
