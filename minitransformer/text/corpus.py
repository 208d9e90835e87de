r"""Reading text and parallel text from files, plain or compressed, whole or as a stream.

Only ``\n`` separates lines: U+0085, U+2028 and a lone ``\r`` occur inside real sentences. A ``\r`` before the ``\n`` is
part of the line end, and a byte-order mark is part of the file format: both are removed.
"""

import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from minitransformer.errors import DataError, quote
from minitransformer.files import MAX_LINE

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
MAX_TEXT = 1 << 26
"""Maximum characters, after decompression, of a text that is read as one string."""


def check_lines(lines: Iterable[str], where: str) -> Iterable[str]:
    """``lines``, which must not be a string: each character would be taken for a line. A list is checked whole."""
    if isinstance(lines, str | bytes):
        raise DataError(f"{where}: lines must be a list of strings, got one, {quote(lines, 40)}; write [line]")
    wrong = [] if isinstance(lines, Iterable) else [lines]
    if isinstance(lines, list | tuple):
        wrong = [line for line in lines if not isinstance(line, str)]
    if wrong:
        raise DataError(f"{where}: lines must be a list of strings, got {quote(wrong[0], 40)}")
    return lines


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file (``.gz`` and ``.xz`` are decompressed), without line ends.

    Raises:
        DataError: the file cannot be read, is damaged or empty, or a line is not UTF-8 or longer than `MAX_LINE` (with
            the line number).
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    """As `read_lines`, but lazily, line by line."""
    for line in _lines_with_ends(path):
        yield line.removesuffix("\n").removesuffix("\r")


def read_parallel(src_path: str | Path, tgt_path: str | Path) -> tuple[list[str], list[str]]:
    """The lines of two files, where line i of one is the translation of line i of the other.

    Raises:
        DataError: as for `read_lines`, or the files have different numbers of lines.
    """
    src, tgt = read_lines(src_path), read_lines(tgt_path)
    if len(src) != len(tgt):
        raise _misalignment_error(src_path, tgt_path, len(src), len(tgt))
    return src, tgt


def stream_parallel(src_path: str | Path, tgt_path: str | Path) -> Iterator[tuple[str, str]]:
    """As `read_parallel`, pair by pair; different numbers of lines are detected only at the end."""
    n_src = n_tgt = 0
    for src_line, tgt_line in zip_longest(stream_lines(src_path), stream_lines(tgt_path)):
        n_src += src_line is not None
        n_tgt += tgt_line is not None
        if n_src == n_tgt:
            yield src_line, tgt_line
    if n_src != n_tgt:
        raise _misalignment_error(src_path, tgt_path, n_src, n_tgt)


def _misalignment_error(src_path: str | Path, tgt_path: str | Path, n_src: int, n_tgt: int) -> DataError:
    return DataError(f"{src_path} and {tgt_path}: must have the same number of lines, got {n_src} and {n_tgt}")


def read_text(path: str | Path) -> str:
    """A whole file as one string; DataError as for `read_lines`, or if it has more than `MAX_TEXT` characters."""
    lines, size = [], 0
    for line in _lines_with_ends(path):
        lines.append(line)
        size += len(line)
        if size > MAX_TEXT:
            raise DataError(f"{path}: must have at most {MAX_TEXT} characters of text, got more")
    return "".join(lines)


def _lines_with_ends(path: str | Path) -> Iterator[str]:
    """The lines with their ends, which the last one may lack, and without a byte-order mark."""
    path, number = Path(path), 0
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), start=1):
                if len(line) > MAX_LINE:
                    raise DataError(f"{path}:{number}: a line must have at most {MAX_LINE} bytes, got more")
                text = line.decode("utf-8")
                yield text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError as error:
        place = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
        remedy = "convert the file by iconv, whose option -c drops what cannot be converted"
        raise DataError(f"{path}:{number}: must be UTF-8, got {place}; {remedy}") from error
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{path}: must be an intact {path.suffix} file, got a damaged one: {error}") from error
    except OSError as error:
        is_lost = isinstance(error, FileNotFoundError) and not path.is_absolute()
        remedy = "; a relative path starts in the current folder, also in a config" if is_lost else ""
        raise DataError(f"{path}: cannot be read: {error.strerror or error}{remedy}") from error
    if not number:
        raise DataError(f"{path}: must have at least one line, got an empty file")
