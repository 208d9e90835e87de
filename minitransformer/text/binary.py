"""Binarized sentence pairs: token ids in memory-mapped files, opened in milliseconds and read as batches need them.

A folder contains ``header.json`` and, for each side, ``src.ids`` (the ids of all sentences, concatenated) and
``src.ends`` (the offset at which each sentence ends). Numbers are little-endian; ids have 16 bits if they fit.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from minitransformer.config import UNK
from minitransformer.errors import DataError, printable
from minitransformer.files import read_bounded

FORMAT, VERSION = "minitransformer pairs", 1
HEADER = "header.json"
SIDES = ("src", "tgt")
ENDS = "<u8"
CHUNK_IDS = 1 << 20
"""Number of ids that are checked, or hashed, at a time."""
MAX_HEADER = 1 << 16
"""Maximum bytes of a header."""


class FlatSentences(Sequence):
    """The sentences of one side: ``sentences[i]`` is an array of ids without BOS and EOS, a view of ``ids``.

    ids: (tokens,), those of all sentences, concatenated   ends: (sentences,), the offset at which each ends
    """

    def __init__(self, ids: np.ndarray, ends: np.ndarray):
        self.ids, self.ends = ids, ends

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "FlatSentences":
        """The same sentences; lists become arrays in memory."""
        if isinstance(sentences, cls):
            return sentences
        ids = np.fromiter(chain.from_iterable(sentences), dtype=np.int32)
        return cls(ids, np.cumsum(lengths_of(sentences), dtype=ENDS))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]

    def lengths(self) -> np.ndarray:
        """Number of tokens of each sentence, (sentences,) int32."""
        lengths = np.empty(len(self.ends), dtype=np.int32)
        lengths[:1] = self.ends[:1]
        np.subtract(self.ends[1:], self.ends[:-1], out=lengths[1:], casting="unsafe")
        return lengths

    def parts(self) -> Iterator[np.ndarray]:
        """All ids, CHUNK_IDS at a time: a memory-mapped file may be larger than the memory."""
        return (self.ids[start : start + CHUNK_IDS] for start in range(0, len(self.ids), CHUNK_IDS))


def lengths_of(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Number of tokens of each sentence, without reading the ids of flat ones."""
    if isinstance(sentences, FlatSentences):
        return sentences.lengths()
    return np.fromiter(map(len, sentences), dtype=np.int32, count=len(sentences))


def fingerprint_of(sides: Iterable[Sequence[Sequence[int]]]) -> str:
    """SHA-256 of sentence pairs, by which a resumed run recognizes its data, in memory or in files."""
    digest = hashlib.sha256()
    for sentences in map(FlatSentences.of, sides):
        digest.update(sentences.lengths().astype("<i8").tobytes())
        for part in sentences.parts():
            digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class BinaryHeader:
    """Description of the pairs. ``n_empty``, ``n_long``: pairs left out; ``max_length``: tokens per side incl. EOS;
    ``vocab_size``: ids of the tokenizer, of the larger vocabulary if it has two."""

    pairs: int
    vocab_size: int
    tokenizer_sha256: str
    max_length: int
    n_empty: int
    n_long: int
    n_src_tokens: int
    n_tgt_tokens: int
    fingerprint: str


def id_type(vocab_size: int) -> str:
    """The NumPy data type of ids in files."""
    return "<u2" if vocab_size <= 1 << 16 else "<i4"


def sha256_of(text: str) -> str:
    """SHA-256 of a tokenizer's text, which identifies the tokenizer that encoded a folder."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def open_pairs(folder: str | Path) -> tuple[BinaryHeader, FlatSentences, FlatSentences]:
    """The header of a folder that `binarize` wrote, and both sides as memory-mapped files.

    Raises:
        DataError: the folder does not exist or has another version, a file does not match the header, or an id is not
            one of the vocabulary.
    """
    header = _read_header(Path(folder) / HEADER)
    return header, *open_sides(Path(folder), header)


def open_sides(folder: Path, header: BinaryHeader) -> Iterator[FlatSentences]:
    """The two sides that the header describes; DataError as for `open_pairs`. Reads their files once."""
    for side, tokens in zip(SIDES, (header.n_src_tokens, header.n_tgt_tokens), strict=True):
        ends = _map_file(folder / f"{side}.ends", ENDS, header.pairs)
        sentences = FlatSentences(_map_file(folder / f"{side}.ids", id_type(header.vocab_size), tokens), ends)
        _check_ends(f"{folder / side}.ends", ends, tokens, header.max_length)
        lows, highs = zip(*((part.min(), part.max()) for part in sentences.parts()), strict=True)
        lowest, highest = min(lows), max(highs)
        if lowest < UNK or highest >= header.vocab_size:
            raise DataError(
                f"{folder / side}.ids: ids must be from {UNK} to {header.vocab_size - 1}, got {lowest} to {highest}; "
                "binarize the text again"
            )
        yield sentences


def _check_ends(path: str, ends: np.ndarray, tokens: int, max_length: int) -> None:
    """DataError if a sentence is empty or too long, or the last one does not end at ``tokens``."""
    lengths = np.diff(ends, prepend=ends.dtype.type(0))  # unsigned: a decreasing offset gives a huge length
    wrong = np.flatnonzero((lengths < 1) | (lengths >= max_length))
    if len(wrong):
        raise DataError(
            f"{path}: sentence {wrong[0] + 1} must have from 1 to {max_length - 1} tokens, "
            f"got {lengths.astype(np.int64)[wrong[0]]}; binarize the text again"
        )
    if int(ends[-1]) != tokens:
        raise DataError(f"{path}: must end at {tokens}, got {int(ends[-1])}; binarize the text again")


def _map_file(path: Path, dtype: str, length: int) -> np.ndarray:
    wanted = length * np.dtype(dtype).itemsize
    try:
        size = path.stat().st_size
        if size != wanted:
            raise DataError(
                f"{path}: must have the {wanted} bytes that its header states, got {size}; binarize the text again"
            )
        return np.memmap(path, dtype=dtype, mode="r")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _read_header(path: Path) -> BinaryHeader:
    try:
        values = json.loads(read_bounded(path, MAX_HEADER))
        if (values.pop("format"), values.pop("version")) != (FORMAT, VERSION):
            raise ValueError("another format or version")
        header = BinaryHeader(**values)
        types = {name: type(value) for name, value in asdict(header).items()}
        if types != BinaryHeader.__annotations__:
            raise ValueError("a value of another type")
        counts = [value for value in asdict(header).values() if type(value) is int]
        n_tokens = min(header.n_src_tokens, header.n_tgt_tokens)
        if not (min(counts) >= 0 and max(counts) < 1 << 63 and 1 <= header.pairs <= n_tokens):
            raise ValueError("a count out of range")
        return header
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error.strerror}; create the folder with `minitransformer binarize`"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: must be a header of {FORMAT}, version {VERSION}, got another ({printable(str(error), 100)}); "
            "binarize the text again"
        ) from error
