"""Data sets for training: their sources, licences and checksums, and how to download them."""

from examples.data.download import copy_from, get
from examples.data.registry import DATA_SETS, DataFile, DataSet, find

__all__ = ["DATA_SETS", "DataFile", "DataSet", "copy_from", "find", "get"]
