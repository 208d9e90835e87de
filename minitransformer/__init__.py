"""minitransformer: the Transformer of "Attention Is All You Need", written out by hand."""

__version__ = "0.2.0"
