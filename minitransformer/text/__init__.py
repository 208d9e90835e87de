"""Text: reading parallel files, encoding lines as subword tokens, and grouping sentences into padded batches."""

from minitransformer.batch import Batch, pad_batch
from minitransformer.text.batching import BatchStream
from minitransformer.text.corpus import read_lines, read_parallel
from minitransformer.text.pairs import encode_parallel
from minitransformer.text.piece_tokenizer import PieceTokenizer
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.word_counts import count_words_in_files

__all__ = [
    "Batch",
    "BatchStream",
    "PieceTokenizer",
    "Tokenizer",
    "count_words_in_files",
    "encode_parallel",
    "pad_batch",
    "read_lines",
    "read_parallel",
]
