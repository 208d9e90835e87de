"""Extract text files from downloaded archives.

No path in an archive is ever written to: only the members that the registry names are read, up to the limit of their
data set, and they are written under the registry's own names.
"""

import errno
import gzip
import hashlib
import html
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from examples.data.registry import DataFile, DataSet, DownloadError
from minitransformer.errors import printable

READ_BYTES = 1 << 20
MAX_HEADERS = 1 << 21
"""Bytes of all headers of a tar archive: of 4,096 members, many times as many as a data set has."""
MAX_PAIRS = 1_000_000
"""Lines of the longest table that is split, about four times the longest of www.manythings.org."""
HELD_OUT = 2000
"""Sentence pairs in each of test and val of a split set; at most one pair in twenty."""

DAMAGE = (OSError, EOFError, RuntimeError, ValueError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""Raised for a damaged archive; RuntimeError: it has a password or a compression that zipfile lacks; ValueError: it is
not UTF-8, or a number in a header or a character reference is none."""


def unpack(archive: Path, files: Sequence[DataFile], data_set: DataSet, folder: Path) -> None:
    """Write ``files`` from ``archive``, which may also be a plain or gzipped file, into ``folder``.

    Raises:
        DownloadError: the archive is damaged, lacks a member or has one larger than ``data_set.max_bytes``.
    """
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.member, []).append(file.name)
    try:
        for member, wanted in names.items():
            with _opened(archive, member, data_set.max_bytes) as stream:
                chunks = _bounded(stream, archive, data_set.max_bytes)
                texts = CONVERTERS[data_set.convert if member else ""](chunks, wanted, archive.name)
                for name, text in texts.items():
                    with open(folder / name, "xb") as out:
                        out.writelines(text)
    except DownloadError:
        raise
    except DAMAGE as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):  # EINVAL: a wrong offset in the archive
            raise  # a system error, not a damaged archive
        raise DownloadError(
            f"{archive.name}: must be an intact archive of UTF-8 text without a password, got another "
            f"({printable(str(error), 100)})"
        ) from error


@contextmanager
def _opened(archive: Path, member: str, limit: int) -> Iterator[BinaryIO]:
    """A member of an archive, or the file itself (""); what is gzipped is decompressed."""
    if member and zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            if member not in bundle.namelist():
                raise DownloadError(f"{archive.name}: must contain {member}, but it does not")
            if bundle.getinfo(member).file_size > limit:
                raise _too_large(archive, limit)
            with bundle.open(member) as stream:
                yield stream
        return
    with open(archive, "rb") as file, _decompressed(file) as plain:
        if not member:
            yield plain
            return
        headers = _Headers(plain, archive)
        with tarfile.open(fileobj=headers, mode="r:") as bundle:
            entry = _find(bundle, member, archive)
            if entry.size > limit:
                raise _too_large(archive, limit)
            headers.left = limit + tarfile.RECORDSIZE
            with bundle.extractfile(entry) as packed, _decompressed(packed) as stream:
                yield stream


def _decompressed(stream: BinaryIO) -> BinaryIO:
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == b"\x1f\x8b" else stream


def _find(bundle: tarfile.TarFile, member: str, archive: Path) -> tarfile.TarInfo:
    while entry := bundle.next():
        bundle.members.clear()  # tarfile keeps the headers of all members
        if entry.name.removeprefix("./") == member:
            if not entry.isreg() or entry.issparse():  # a sparse file of 500 bytes may unpack to any size
                raise DownloadError(f"{archive.name}: {member} must be a file, got a folder, a link or a sparse file")
            return entry
    raise DownloadError(f"{archive.name}: must contain {member}, but it does not")


class _Headers:
    """A tar archive as tarfile sees it: long names, lists of facts and maps of sparse files, which tarfile reads
    whatever their size, end with an error after so many bytes. Contents that are skipped do not count."""

    def __init__(self, stream: BinaryIO, archive: Path):
        self.left, self.archive, self._stream = MAX_HEADERS, archive, stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise DownloadError(f"{self.archive.name}: must have at most {MAX_HEADERS} bytes of headers, got more")
        self.left -= size
        return self._stream.read(size)


def _bounded(stream: BinaryIO, archive: Path, limit: int) -> Iterator[bytes]:
    """The contents of ``stream`` in chunks; DownloadError if it has more than ``limit`` bytes."""
    size = 0
    for chunk in iter(partial(stream.read, READ_BYTES), b""):
        size += len(chunk)
        if size > limit:
            raise _too_large(archive, limit)
        yield chunk


def _too_large(archive: Path, limit: int) -> DownloadError:
    return DownloadError(f"{archive.name}: each file must have at most {limit} bytes, got more")


Texts = dict[str, Iterator[bytes] | list[bytes]]
"""Name of a file -> its text in parts."""


def _unchanged(chunks: Iterator[bytes], names: Sequence[str], where: str) -> Texts:
    return {names[0]: chunks}


def _segments(chunks: Iterator[bytes], names: Sequence[str], where: str) -> Texts:
    """WMT's mark-up: the text of each ``<seg ...>...</seg>`` on a line, with white space normalized."""
    parts = [part.partition("<seg")[2].partition(">") for part in b"".join(chunks).decode("utf-8").split("</seg>")[:-1]]
    lines = [" ".join(html.unescape(segment).split()) for _, closed, segment in parts if closed]
    return dict.fromkeys(names, [f"{line}\n".encode() for line in lines])


def _pairs(chunks: Iterator[bytes], names: Sequence[str], where: str) -> Texts:
    """A table of ``English <tab> other language <tab> source``, split into train, val and test."""
    text = b"".join(chunks).decode("utf-8")
    if text.count("\n") > MAX_PAIRS:
        raise DownloadError(f"{where}: must have at most {MAX_PAIRS} lines, got {text.count(chr(10))}")
    lines = text.split("\n")
    pairs = [line.rstrip("\r").split("\t", 2)[:2] for line in lines if "\t" in line]
    parts = split_by_first(pairs)
    if not all(parts.values()):
        raise DownloadError(f"{where}: must contain enough pairs for train, val and test, got {len(pairs)}")
    texts = {}
    for name in names:
        part, _, language = name.rpartition(".")
        texts[name] = [f"{pair[0 if language == 'en' else 1]}\n".encode() for pair in parts[part]]
    return texts


def split_by_first(pairs: Sequence[Sequence[str]]) -> dict[str, list]:
    """``pairs`` in three parts that share no first sentence, in an order that depends only on the sentences.

    All translations of a first sentence go to the same part: otherwise a model would be tested on sentences that it
    has seen in training.
    """
    ordered = sorted(pairs, key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    wanted = min(HELD_OUT, len(ordered) // 20)
    parts = {"test": [], "val": [], "train": []}
    previous, part = None, "test"
    for pair in ordered:
        if pair[0] != previous:
            part = next((name for name in ("test", "val") if len(parts[name]) < wanted), "train")
        parts[part].append(pair)
        previous = pair[0]
    return parts


CONVERTERS = {"": _unchanged, "segments": _segments, "pairs": _pairs}
