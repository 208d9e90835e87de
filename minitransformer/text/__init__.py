"""Text: reading parallel files, cutting lines into word pieces, gathering sentences into padded batches."""

from minitransformer.text.batching import Batch, BatchStream, pad_batch
from minitransformer.text.corpus import read_lines, read_parallel
from minitransformer.text.pairs import EncodedPairs, encode_parallel
from minitransformer.text.tokenizer import Tokenizer

__all__ = [
    "Batch",
    "BatchStream",
    "EncodedPairs",
    "Tokenizer",
    "encode_parallel",
    "pad_batch",
    "read_lines",
    "read_parallel",
]
