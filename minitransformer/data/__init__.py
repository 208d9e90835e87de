"""Data sets to train on: where they are, what they may be used for, and how they come onto this machine."""

from minitransformer.data.download import get, take
from minitransformer.data.registry import DATA_SETS, DataFile, DataSet, find

__all__ = ["DATA_SETS", "DataFile", "DataSet", "find", "get", "take"]
