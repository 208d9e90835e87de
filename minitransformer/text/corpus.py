"""Reading lines, and lines that translate each other, from files, plain or compressed."""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

from minitransformer.errors import DataError

OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a UTF-8 text file (``.gz`` and ``.xz`` are unpacked), without their ends.

    Only ``\n`` separates lines: U+0085, U+2028 and a lone ``\r`` occur inside real sentences. One ``\r`` before
    the ``\n`` belongs to the line's end, and a byte-order mark to the file: both are left out.

    Raises:
        DataError: the file cannot be read, is damaged or empty, or a line is not UTF-8 (with its number).
    """
    lines = read_text(path).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def read_parallel(src_path: str | Path, tgt_path: str | Path) -> tuple[list[str], list[str]]:
    """The lines of two files of which line i of one translates line i of the other.

    Raises:
        DataError: as `read_lines`, or the files have different numbers of lines.
    """
    src, tgt = read_lines(src_path), read_lines(tgt_path)
    if len(src) != len(tgt):
        raise DataError(
            f"{src_path} and {tgt_path}: must have the same number of lines, got {len(src)} and {len(tgt)}; "
            f"line {min(len(src), len(tgt)) + 1} has no partner"
        )
    return src, tgt


def read_text(path: str | Path) -> str:
    """A whole file as text; DataError as for `read_lines`."""
    data = _read_bytes(Path(path))
    if not data:
        raise DataError(f"{path}: must have at least one line, got an empty file")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: must be UTF-8, got byte 0x{data[error.start]:02x}") from error


def _read_bytes(path: Path) -> bytes:
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            return file.read()
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{path}: must be a whole {path.suffix} file, got a damaged one: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
