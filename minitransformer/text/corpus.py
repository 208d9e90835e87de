r"""Reading text and parallel text from files, plain or compressed, whole or as a stream.

Only ``\n`` separates lines: U+0085, U+2028 and a lone ``\r`` occur inside real sentences. A ``\r`` before the ``\n`` is
part of the line end, and a byte-order mark is part of the file format: both are removed.
"""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np

from minitransformer.errors import DataError
from minitransformer.files import MAX_LINE

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
BLOCK = 1 << 22
"""Bytes read at once."""
MAX_TEXT = 1 << 26
"""Bytes, decompressed, of the longest text that is read as one string."""


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file (``.gz`` and ``.xz`` are decompressed), without line ends.

    Raises:
        DataError: the file cannot be read, is damaged or empty, or a line is not UTF-8 or longer than `MAX_LINE` (with
            the line number).
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    """As `read_lines`, but lazily, with a few megabytes in memory."""
    number = 1
    for block in blocks_of_lines(path):
        lines = lines_of(block, path, number)
        number += len(lines)
        yield from lines


def read_parallel(src_path: str | Path, tgt_path: str | Path) -> tuple[list[str], list[str]]:
    """The lines of two files, where line i of one is the translation of line i of the other.

    Raises:
        DataError: as for `read_lines`, or the files have different numbers of lines.
    """
    src, tgt = read_lines(src_path), read_lines(tgt_path)
    if len(src) != len(tgt):
        raise misaligned(src_path, tgt_path)
    return src, tgt


def stream_parallel(src_path: str | Path, tgt_path: str | Path) -> Iterator[tuple[str, str]]:
    """As `read_parallel`, pair by pair; different numbers of lines are detected only at the end."""
    for src_line, tgt_line in zip_longest(stream_lines(src_path), stream_lines(tgt_path)):
        if src_line is None or tgt_line is None:
            raise misaligned(src_path, tgt_path)
        yield src_line, tgt_line


def misaligned(src_path: str | Path, tgt_path: str | Path) -> DataError:
    """The error for two files with different numbers of lines: both numbers, and where the alignment seems to break.

    A pipe cannot be read a second time, so for one it says neither.
    """
    if not all(Path(path).is_file() for path in (src_path, tgt_path)):
        return DataError(
            f"{src_path} and {tgt_path}: must have the same number of lines, got one that ends before the other"
        )
    lengths = [np.array([len(line) for line in stream_lines(path)]) for path in (src_path, tgt_path)]
    line = first_shifted(*lengths) + 1
    return DataError(
        f"{src_path} and {tgt_path}: must have the same number of lines, got {len(lengths[0])} and {len(lengths[1])}; "
        f"they look shifted from line {line} on"
    )


def first_shifted(src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> int:
    """The line p, counted from 0, from which on line i of the shorter side best matches line i + d of the longer.

    d is the difference in the number of lines. Lines match if their lengths are similar: p minimises the sum of
    |ln(length / length)|, with lines before p aligned to i and lines from p on aligned to i + d.
    """
    short, long = sorted((src_lengths, tgt_lengths), key=len)
    shift = len(long) - len(short)
    straight, shifted = (np.abs(np.log((other + 1) / (short + 1))) for other in (long[: len(short)], long[shift:]))
    # cost of p = straight[:p] + shifted[p:]
    cost = np.concatenate(([0.0], np.cumsum(straight))) + np.concatenate((np.cumsum(shifted[::-1])[::-1], [0.0]))
    return int(np.flatnonzero(np.isclose(cost, cost.min()))[-1])


def read_text(path: str | Path) -> str:
    """A whole file as one string; DataError as for `read_lines`, or if it has more than `MAX_TEXT` bytes."""
    blocks, size = [], 0
    for block in blocks_of_lines(path):
        blocks.append(block)
        size += len(block)
        if size > MAX_TEXT:
            raise DataError(f"{path}: must have at most {MAX_TEXT} bytes of text, got more")
    return _decoded(b"".join(blocks), path, 1)


def blocks_of_lines(path: str | Path, size: int = 0) -> Iterator[bytes]:
    """Whole lines, about ``size`` bytes at a time (0: BLOCK); only the last line of the file may lack its line end."""
    path, rest, is_empty, n_lines = Path(path), [], True, 0
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            while block := file.read(size or BLOCK):
                is_empty = False
                if sum(map(len, rest)) + (block.find(b"\n") + 1 or len(block)) > MAX_LINE:
                    raise DataError(f"{path}:{n_lines + 1}: a line must have at most {MAX_LINE} bytes, got more")
                end = block.rfind(b"\n") + 1
                if end:
                    yield b"".join([*rest, block[:end]])
                    rest, n_lines = [], n_lines + block.count(b"\n")
                rest.append(block[end:])
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{path}: must be an intact {path.suffix} file, got a damaged one: {error}") from error
    except OSError as error:
        is_lost = isinstance(error, FileNotFoundError) and not path.is_absolute()
        remedy = "; a relative path begins in the current folder, also in a config" if is_lost else ""
        raise DataError(f"{path}: cannot be read: {error.strerror or error}{remedy}") from error
    if is_empty:
        raise DataError(f"{path}: must have at least one line, got an empty file")
    if any(rest):
        yield b"".join(rest)


def lines_of(block: bytes, path: str | Path, number: int) -> list[str]:
    """The lines of a block of `blocks_of_lines`, of which the first is line ``number`` of the file, counted from 1."""
    lines = _decoded(block, path, number).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if b"\r" in block else lines


def _decoded(block: bytes, path: str | Path, number: int) -> str:
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        begin = block.rfind(b"\n", 0, error.start) + 1
        number += block.count(b"\n", 0, begin)
        raise DataError(
            f"{path}:{number}: must be UTF-8, got byte 0x{block[error.start]:02x} at byte {error.start - begin + 1} of "
            "the line"
        ) from error
    return text.removeprefix("\ufeff") if number == 1 else text
