"""Binarised sentence pairs: token ids in memory-mapped files, opened in milliseconds and read as batches need them.

A folder contains ``header.json`` and, for each side, ``src.ids`` (the ids of all sentences, concatenated) and
``src.ends`` (the offset at which each sentence ends). Numbers are little-endian; ids have 16 bits if they fit.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from minitransformer.config import UNK
from minitransformer.errors import DataError, printable
from minitransformer.files import read_bounded

FORMAT, VERSION = "minitransformer pairs", 1
HEADER = "header.json"
SIDES = ("src", "tgt")
ENDS = "<u8"
CHUNK = 1 << 20
"""Ids that are hashed, or offsets that are checked, at a time."""
MAX_HEADER = 1 << 16
"""Bytes of the longest header."""


class MappedSentences(Sequence):
    """The sentences of one side: ``sentences[i]`` is an array of ids without BOS and EOS, a view of the file."""

    def __init__(self, ids: np.ndarray, ends: np.ndarray):
        self.ids, self.ends = ids, ends

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


def lengths_of(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Number of tokens of each sentence, without reading memory-mapped sentences."""
    if isinstance(sentences, MappedSentences):
        return sentences.lengths()
    return np.fromiter(map(len, sentences), dtype=np.int32, count=len(sentences))


def fingerprint_of(sides: Sequence[Sequence[Sequence[int]]]) -> str:
    """SHA-256 of sentence pairs, by which a resumed run recognises its data, in memory or in files."""
    digest = hashlib.sha256()
    for sentences in sides:
        digest.update(lengths_of(sentences).astype("<i8").tobytes())
        for part in _parts(sentences):
            digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()


def _parts(sentences: Sequence[Sequence[int]]) -> Iterator[np.ndarray]:
    """All ids, in parts."""
    if isinstance(sentences, MappedSentences):
        yield from (sentences.ids[start : start + CHUNK] for start in range(0, len(sentences.ids), CHUNK))
    else:
        yield np.fromiter((number for sentence in sentences for number in sentence), dtype=np.int64)


@dataclass(frozen=True)
class BinaryHeader:
    """Description of the pairs. ``n_empty``, ``n_long``: pairs left out; ``max_length``: tokens per side incl. EOS."""

    pairs: int
    vocab_size: int
    tokenizer_sha256: str
    max_length: int
    n_empty: int
    n_long: int
    n_src_tokens: int
    n_tgt_tokens: int
    fingerprint: str


@dataclass(frozen=True)
class BinaryPairs:
    """An open folder of binarised pairs."""

    src: MappedSentences
    tgt: MappedSentences
    header: BinaryHeader


def id_type(vocab_size: int) -> str:
    """The NumPy data type of ids in files."""
    return "<u2" if vocab_size <= 1 << 16 else "<i4"


def sha256_of(text: str) -> str:
    """SHA-256 of a tokenizer's text, which identifies the tokenizer that encoded a folder."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def open_pairs(folder: str | Path) -> BinaryPairs:
    """Memory-map the files of a folder that `binarise` wrote.

    Raises:
        DataError: the folder does not exist or has another version, a file does not match the header, or an id is not
            one of the vocabulary.
    """
    folder = Path(folder)
    header = _read_header(folder / HEADER)
    sides = open_sides(folder, header)
    for side, sentences in zip(SIDES, sides, strict=True):
        _check_ids(f"{folder / side}.ids", sentences, header.vocab_size)
    return BinaryPairs(*sides, header)


def open_sides(folder: Path, header: BinaryHeader) -> list[MappedSentences]:
    """The two sides that the header describes; DataError as for `open_pairs`."""
    sides = []
    for side, tokens in zip(SIDES, (header.n_src_tokens, header.n_tgt_tokens), strict=True):
        ends = _mapped(folder / f"{side}.ends", ENDS, header.pairs)
        ids = _mapped(folder / f"{side}.ids", id_type(header.vocab_size), tokens)
        _check_ends(f"{folder / side}.ends", ends, tokens, header.max_length)
        sides.append(MappedSentences(ids, ends))
    return sides


def _check_ids(path: str, sentences: MappedSentences, vocab_size: int) -> None:
    """DataError if an id is none of a token: reads the file once."""
    lowest, highest = min(map(np.min, _parts(sentences))), max(map(np.max, _parts(sentences)))
    if lowest < UNK or highest >= vocab_size:
        raise DataError(
            f"{path}: ids must be from {UNK} to {vocab_size - 1}, got {lowest} to {highest}; binarise the text again"
        )


def _check_ends(path: str, ends: np.ndarray, tokens: int, max_length: int) -> None:
    """DataError if a sentence is empty or too long, or the last one does not end at ``tokens``."""
    last = np.zeros(1, ends.dtype)
    for start in range(0, len(ends), CHUNK):
        offsets = np.concatenate((last, ends[start : start + CHUNK]))
        lengths, last = offsets[1:] - offsets[:-1], offsets[-1:]  # unsigned: an offset that falls gives a huge length
        wrong = np.flatnonzero((lengths < 1) | (lengths >= max_length))
        if len(wrong):
            raise DataError(
                f"{path}: sentence {start + wrong[0] + 1} must have from 1 to {max_length - 1} tokens, "
                f"got {lengths.astype(np.int64)[wrong[0]]}; binarise the text again"
            )
    if int(last[0]) != tokens:
        raise DataError(f"{path}: must end at {tokens}, got {int(last[0])}; binarise the text again")


def _mapped(path: Path, dtype: str, length: int) -> np.ndarray:
    wanted = length * np.dtype(dtype).itemsize
    try:
        size = path.stat().st_size
        if size != wanted:
            raise DataError(
                f"{path}: must have the {wanted} bytes that its header states, got {size}; binarise the text again"
            )
        return np.memmap(path, dtype=dtype, mode="r")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _read_header(path: Path) -> BinaryHeader:
    try:
        if path.exists() and not path.is_file():
            raise ValueError("no ordinary file")
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
            f"{path}: cannot be read: {error.strerror}; create the folder with `minitransformer binarise`"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: must be a header of {FORMAT}, version {VERSION}, got another ({printable(str(error), 100)}); "
            "binarise the text again"
        ) from error
