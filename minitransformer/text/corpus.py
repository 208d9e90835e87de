r"""Reading text and parallel text from files, plain or compressed, whole or as a stream.

Only ``\n`` separates lines: U+0085, U+2028 and a lone ``\r`` occur inside real sentences. A ``\r`` before the ``\n`` is
part of the line end, and a byte-order mark is part of the file format: both are removed.
"""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from minitransformer.errors import DataError

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
BLOCK = 1 << 22
"""Bytes read at once."""


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file (``.gz`` and ``.xz`` are decompressed), without line ends.

    Raises:
        DataError: the file cannot be read, is damaged or empty, or a line is not UTF-8 (with the line number).
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """As `read_lines`, but lazily, with a few megabytes in memory.

    start, stop: range of bytes of an uncompressed file; both are starts of lines, as `line_starts` returns them
    """
    at = start
    for block in _blocks_of_lines(Path(path), start, stop):
        lines = _decoded(block, path, at).removesuffix("\n").split("\n")
        at += len(block)
        if b"\r" in block:
            lines = [line.removesuffix("\r") for line in lines]
        yield from lines
    if at == 0:
        raise DataError(f"{path}: must have at least one line, got an empty file")


def line_starts(path: str | Path, parts: int) -> list[int]:
    """Offsets (bytes, including 0 and the size) that split an uncompressed file into similar parts of whole lines."""
    size = text_size(path)
    starts = {0, size}
    with open(path, "rb") as file:
        for part in range(1, parts):
            file.seek(size * part // parts)
            file.readline()
            starts.add(file.tell())
    return sorted(starts)


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
    src, tgt = stream_lines(src_path), stream_lines(tgt_path)
    while True:
        src_line, tgt_line = next(src, None), next(tgt, None)
        if (src_line is None) != (tgt_line is None):
            raise misaligned(src_path, tgt_path)
        if src_line is None or tgt_line is None:
            return
        yield src_line, tgt_line


def misaligned(src_path: str | Path, tgt_path: str | Path) -> DataError:
    """The error for two files with different numbers of lines: both numbers, and where the alignment seems to break."""
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
    """A whole file as one string; DataError as for `read_lines`."""
    data = b"".join(_blocks_of_lines(Path(path)))
    if not data:
        raise DataError(f"{path}: must have at least one line, got an empty file")
    return _decoded(data, path, 0)


def text_size(path: str | Path) -> int:
    """Size of a file in bytes, compressed if it is; DataError if it cannot be read."""
    try:
        return Path(path).stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _blocks_of_lines(path: Path, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """The bytes of whole lines, some megabytes at a time; only the last line of the file may lack its line end."""
    rest: list[bytes] = []
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            file.seek(start)
            left = BLOCK if stop is None else stop - start
            while block := file.read(min(BLOCK, left)):
                left -= 0 if stop is None else len(block)
                end = block.rfind(b"\n") + 1
                if end:
                    yield b"".join([*rest, block[:end]])
                    rest = []
                rest.append(block[end:])
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{path}: must be an intact {path.suffix} file, got a damaged one: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    if any(rest):
        yield b"".join(rest)


def _decoded(block: bytes, path: str | Path, at: int) -> str:
    """The text of a block that begins at byte ``at`` of the (decompressed) file."""
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        before = sum(part.count(b"\n") for part in _bytes_before(Path(path), at))
        number = before + block.count(b"\n", 0, error.start) + 1
        begin = block.rfind(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{number}: must be UTF-8, got byte 0x{block[error.start]:02x} at byte {error.start - begin + 1} of "
            "the line"
        ) from error
    return text.removeprefix("\ufeff") if at == 0 else text


def _bytes_before(path: Path, stop: int) -> Iterator[bytes]:
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        while stop > 0 and (block := file.read(min(BLOCK, stop))):
            stop -= len(block)
            yield block
