"""Encode aligned text files into a folder of binarised pairs, as a stream and with several processes."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from minitransformer.errors import DataError
from minitransformer.text.binary import (
    ENDS,
    FORMAT,
    HEADER,
    SIDES,
    VERSION,
    BinaryHeader,
    MappedSentences,
    fingerprint_of,
    id_type,
    sha256_of,
)
from minitransformer.text.corpus import stream_parallel
from minitransformer.text.pairs import encode_pairs
from minitransformer.text.processes import map_in_processes
from minitransformer.text.tokenizer import Tokenizer

PAIRS_AT_A_TIME = 5000
"""Pairs per task of a process, about a megabyte of text."""


class FlatSentences(NamedTuple):
    """The concatenated ``ids`` of some sentences and the ``lengths`` of the sentences, as arrays."""

    ids: np.ndarray
    lengths: np.ndarray


def binarise(
    tokenizer: Tokenizer,
    files: Sequence[tuple[str | Path, str | Path]],
    folder: str | Path,
    *,
    max_length: int = 256,
    processes: int = 1,
    progress: bool = False,
) -> BinaryHeader:
    """Encode aligned files, in the given order, into ``folder``, which `binary.open_pairs` opens.

    Pairs are left out and counted as in `pairs.encode_parallel`.

    files: any number of (source file, target file)
    max_length: maximum number of tokens of a sentence including EOS
    progress: show a progress bar

    Raises:
        DataError: as for `read_parallel`; the folder exists or cannot be written; or no pair is left. No partial folder
            remains.
    """
    text = tokenizer.dumps()
    n_empty = n_long = 0
    with PairWriter(folder, tokenizer.vocab_size, text, max_length) as writer:
        tasks = (_Task(text, max_length, *lines) for lines in _some_pairs(files))
        with tqdm(desc="encode", unit="pair", disable=not progress) as bar:
            for part in map_in_processes(_encode, tasks, processes):
                writer.add(part.src, part.tgt)
                n_empty, n_long = n_empty + part.n_empty, n_long + part.n_long
                bar.update(part.n_pairs)
        return writer.finish(n_empty, n_long)


@dataclass(frozen=True)
class _Task:
    tokenizer_text: str
    max_length: int
    src_lines: list[str]
    tgt_lines: list[str]


@dataclass(frozen=True)
class _Part:
    src: FlatSentences
    tgt: FlatSentences
    n_empty: int
    n_long: int
    n_pairs: int


def _some_pairs(files: Sequence[tuple[str | Path, str | Path]]) -> Iterator[tuple[list[str], list[str]]]:
    """(source lines, target lines), up to PAIRS_AT_A_TIME of each"""
    pairs = chain.from_iterable(stream_parallel(src, tgt) for src, tgt in files)
    while some := list(islice(pairs, PAIRS_AT_A_TIME)):
        yield [src for src, _ in some], [tgt for _, tgt in some]


def _encode(task: _Task) -> _Part:
    encoded = encode_pairs(_tokenizer(task.tokenizer_text), task.src_lines, task.tgt_lines, max_length=task.max_length)
    return _Part(_flat(encoded.src), _flat(encoded.tgt), encoded.n_empty, encoded.n_long, len(task.src_lines))


@lru_cache(1)
def _tokenizer(text: str) -> Tokenizer:
    """One tokenizer for all tasks of a process, because it caches the words it has encoded."""
    return Tokenizer.loads(text)


def _flat(sentences: list[list[int]]) -> FlatSentences:
    ids = np.fromiter(chain.from_iterable(sentences), dtype=np.int32)
    return FlatSentences(ids, np.fromiter(map(len, sentences), dtype=np.int32, count=len(sentences)))


class PairWriter:
    """Writes a folder of pairs, part by part; the folder gets its name only when it is complete.

        with PairWriter(folder, vocab_size, tokenizer_text, max_length) as writer:
            writer.add(src, tgt)
            ...
            header = writer.finish(n_empty, n_long)

    If anything fails before ``finish``, the partial folder is removed.

    Raises:
        DataError: the folder already exists or cannot be written.
    """

    def __init__(self, folder: str | Path, vocab_size: int, tokenizer_text: str, max_length: int):
        self.folder = Path(folder)
        self.partial = self.folder.with_name(f".{self.folder.name}.partial")
        if self.folder.exists():
            raise DataError(f"binarise: {folder} must not exist yet; delete it or choose another name")
        self.tokenizer_sha256, self.max_length, self.vocab_size = sha256_of(tokenizer_text), max_length, vocab_size
        self.id_type = id_type(vocab_size)
        self.pairs, self.tokens, self.files = 0, dict.fromkeys(SIDES, 0), {}

    def __enter__(self) -> "PairWriter":
        try:
            shutil.rmtree(self.partial, ignore_errors=True)  # left by a process that was killed
            self.partial.mkdir(parents=True)
        except OSError as error:
            raise DataError(f"binarise: {self.folder} cannot be written: {error.strerror}") from error
        for side in SIDES:
            for kind in ("ids", "ends"):
                self.files[side, kind] = open(self.partial / f"{side}.{kind}", "wb")  # noqa: SIM115
        return self

    def add(self, src: FlatSentences, tgt: FlatSentences) -> None:
        for side, (ids, lengths) in zip(SIDES, (src, tgt), strict=True):
            ends = self.tokens[side] + np.cumsum(lengths, dtype=np.int64)
            self._write(side, "ids", ids.astype(self.id_type))
            self._write(side, "ends", ends.astype(ENDS))
            self.tokens[side] += len(ids)
        self.pairs += len(src.lengths)

    def finish(self, n_empty: int, n_long: int) -> BinaryHeader:
        """Write the header and rename the folder to its final name."""
        if not self.pairs:
            raise DataError(
                f"binarise: at least one pair must be left, got none ({n_empty} with an empty side, {n_long} longer "
                f"than {self.max_length} tokens)"
            )
        self._close()
        header = BinaryHeader(
            pairs=self.pairs,
            vocab_size=self.vocab_size,
            tokenizer_sha256=self.tokenizer_sha256,
            max_length=self.max_length,
            n_empty=n_empty,
            n_long=n_long,
            n_src_tokens=self.tokens["src"],
            n_tgt_tokens=self.tokens["tgt"],
            fingerprint=fingerprint_of([self._mapped(side) for side in SIDES]),
        )
        text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(header)}, indent=1)
        (self.partial / HEADER).write_text(text + "\n", encoding="utf-8")
        self.partial.rename(self.folder)
        return header

    def _mapped(self, side: str) -> MappedSentences:
        ids = np.memmap(self.partial / f"{side}.ids", dtype=self.id_type, mode="r")
        return MappedSentences(ids, np.memmap(self.partial / f"{side}.ends", dtype=ENDS, mode="r"))

    def _write(self, side: str, kind: str, values: np.ndarray) -> None:
        try:
            self.files[side, kind].write(values.tobytes())
        except OSError as error:
            raise DataError(f"binarise: {self.folder} cannot be written: {error.strerror}") from error

    def _close(self) -> None:
        for file in self.files.values():
            file.close()

    def __exit__(self, *error: object) -> None:
        try:
            self._close()
        finally:
            shutil.rmtree(self.partial, ignore_errors=True)
