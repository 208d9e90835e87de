"""The exception of downloads."""

from minitransformer.errors import MiniTransformerError


class DownloadError(MiniTransformerError, RuntimeError):
    """A data set could not be fetched or is not the file it should be."""
