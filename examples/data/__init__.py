"""Data sets for training: their sources, licenses and checksums, and how to download them."""

from examples.data.download import copy_from, get
from examples.data.registry import DataFile, DataSet, DownloadError, find, read_data_sets

__all__ = ["DataFile", "DataSet", "DownloadError", "copy_from", "find", "get", "read_data_sets"]
