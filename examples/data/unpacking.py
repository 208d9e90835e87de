"""Extract text files from downloaded archives: one function per packing, each ``(archive, files) -> streams``.

No path of an archive is ever written to: only members listed in the registry are read, up to the limit of their data
set, and they are written under the registry's own names. Large members are streamed in small chunks.
"""

import errno
import gzip
import hashlib
import html
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from examples.data.errors import DownloadError
from examples.data.registry import MAX_BYTES, DataFile
from examples.data.tar import members
from minitransformer.errors import printable

CHUNK = 1 << 20

MAX_PAIRS = 1_000_000
"""Lines of the longest table that is split, about four times the longest of www.manythings.org."""

DAMAGE = (OSError, EOFError, RuntimeError, ValueError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""Raised for a damaged archive; RuntimeError: it has a password or a compression that zipfile lacks; ValueError: a
header of tarfile, or a character reference, has a number that is none."""

HELD_OUT = 2000
"""Sentence pairs in each of test and val of a split set; at most one pair in twenty."""

TED_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
"""Sets of IWSLT 2014 that are commonly concatenated as the test set."""
TED_EVERY = 23
"""Every 23rd training pair is commonly held out for validation."""
TED_TAGGED = re.compile(r"<(title|description)>(.*)</\1>")

Stream = tuple[str, Iterator[bytes]]
"""Name of a file, and its contents in chunks."""


def unpack(
    archive: Path, packing: str, files: Sequence[DataFile], folder: Path, max_bytes: int = MAX_BYTES
) -> dict[str, str]:
    """Write ``files`` from ``archive`` into ``folder``; returns the SHA-256 of each by its name.

    Raises:
        DownloadError: the archive is damaged, lacks a member or contains one larger than ``max_bytes``.
    """
    sums = {}
    try:
        for name, chunks in UNPACKERS[packing](archive, files, max_bytes):
            with open(folder / name, "xb") as out, progress_bar(f"unpack {name}") as bar:
                for chunk in chunks:
                    out.write(chunk)
                    bar.update(len(chunk))
            sums[name] = sha256_of(folder / name)
    except DownloadError:
        raise
    except UnicodeDecodeError as error:
        raise DownloadError(f"{archive.name}: must contain UTF-8 text, but it does not ({error})") from error
    except DAMAGE as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):  # EINVAL: a wrong offset in the archive
            raise  # a system error, not a damaged archive
        reason = printable(str(error), 100)
        raise DownloadError(
            f"{archive.name}: must be an intact archive without a password, got another ({reason})"
        ) from error
    return sums


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def md5_of(path: Path) -> str:
    """Detects damage, as that is what published MD5s are for; anybody can make another file of the same MD5."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def progress_bar(what: str, total: int | None = None, start: int = 0) -> tqdm:
    """A progress bar in bytes, shown only on a terminal."""
    return tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=what, disable=None)


def _plain(archive: Path, files: Sequence[DataFile], limit: int, opener: Callable = open) -> Iterator[Stream]:
    for file in files:
        with opener(archive, "rb") as stream:
            yield file.name, _bounded(stream, archive, limit)


def _gz(archive: Path, files: Sequence[DataFile], limit: int) -> Iterator[Stream]:
    return _plain(archive, files, limit, gzip.open)


def _tar(archive: Path, files: Sequence[DataFile], limit: int) -> Iterator[Stream]:
    """Members of a tar archive; those whose names end in .gz are decompressed."""
    for file, stream in members(archive, files, limit):
        with gzip.open(stream) if file.member.endswith(".gz") else stream as plain:
            yield file.name, _bounded(plain, archive, limit)


def _sgm(archive: Path, files: Sequence[DataFile], limit: int) -> Iterator[Stream]:
    """WMT's mark-up inside a .tgz: the text of each <seg> on a line, with white space normalised."""
    for file, stream in members(archive, files, limit):
        yield file.name, iter([_joined(_segments(_whole(stream, archive, limit)))])


def _ted(archive: Path, files: Sequence[DataFile], limit: int) -> Iterator[Stream]:
    """IWSLT 2014: tagged talks, one sentence per line, of which every 23rd is held out; and test sets in XML."""
    for file in files:
        part, _, language = file.name.rpartition(".")
        if part == "test":
            names, lines_of = [f"de-en/IWSLT14.{test}.de-en.{language}.xml" for test in TED_TESTS], _segments
        else:
            names, lines_of = [f"de-en/train.tags.de-en.{language}"], _spoken_lines
        parts = [DataFile(name, file.address, member=name) for name in names]
        found = {member.name: _whole(stream, archive, limit) for member, stream in members(archive, parts, limit)}
        lines = [line for name in names for line in lines_of(found[name])]
        if part != "test":
            lines = [line for i, line in enumerate(lines, start=1) if (i % TED_EVERY == 0) == (part == "val")]
        yield file.name, iter([_joined(lines)])


def _spoken_lines(text: str) -> list[str]:
    """The lines of a tagged file: titles and descriptions without their tags, without the other tagged lines."""
    lines = []
    for line in text.split("\n"):
        line = line.strip()
        tagged = TED_TAGGED.fullmatch(line)
        if tagged:
            lines.append(tagged[2].strip())
        elif line and not line.startswith("<"):
            lines.append(line)
    return lines


def _segments(text: str) -> list[str]:
    """The text of each ``<seg ...>...</seg>``, in time proportional to the length of ``text``, whatever is unclosed."""
    parts = [part.partition("<seg")[2].partition(">") for part in text.split("</seg>")[:-1]]
    return [" ".join(html.unescape(segment).split()) for _, closed, segment in parts if closed]


def _pairs(archive: Path, files: Sequence[DataFile], limit: int) -> Iterator[Stream]:
    """A .zip with one text of ``English <tab> other language <tab> source`` lines, split into train, val and test."""
    with zipfile.ZipFile(archive) as bundle:
        tables = [name for name in bundle.namelist() if name.endswith(".txt") and not name.startswith("_")]
        if len(tables) != 1:
            raise DownloadError(f"{archive.name}: must contain one table of sentences, got {len(tables)}")
        with bundle.open(tables[0]) as stream:
            text = _whole(stream, archive, limit)
    if text.count("\n") > MAX_PAIRS:
        raise DownloadError(f"{archive.name}: must have at most {MAX_PAIRS} lines, got {text.count(chr(10))}")
    lines = text.split("\n")
    pairs = [line.rstrip("\r").split("\t", 2)[:2] for line in lines if "\t" in line]
    parts = split_by_first(pairs)
    if not all(parts.values()):
        raise DownloadError(f"{archive.name}: must contain enough pairs for train, val and test, got {len(pairs)}")
    for file in files:
        part, _, language = file.name.rpartition(".")
        yield file.name, iter([_joined([pair[0 if language == "en" else 1] for pair in parts[part]])])


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


def _bounded(stream: BinaryIO, archive: Path, limit: int) -> Iterator[bytes]:
    """The contents of ``stream`` in chunks; DownloadError if it has more than ``limit`` bytes."""
    left = limit
    while chunk := stream.read(CHUNK):
        left -= len(chunk)
        if left < 0:
            raise DownloadError(f"{archive.name}: each file must have at most {limit} bytes, got more")
        yield chunk


def _whole(stream: BinaryIO, archive: Path, limit: int) -> str:
    return b"".join(_bounded(stream, archive, limit)).decode("utf-8")


def _joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


UNPACKERS = {"plain": _plain, "gz": _gz, "tar": _tar, "sgm": _sgm, "ted": _ted, "pairs": _pairs}
