"""From what lies at an address to text files: one function per way of packing, each ``(archive, files) -> texts``.

Nothing is ever unpacked by its name in an archive: members are read into memory, up to ``MAX_BYTES`` each.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import html
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from minitransformer.data.registry import DataFile
from minitransformer.errors import DownloadError

MAX_BYTES = 1 << 30
"""Largest unpacked file; a small archive that claims more is damaged or hostile."""

DAMAGE = (OSError, EOFError, RuntimeError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged archive raises; RuntimeError: one with a password or a packing that zipfile lacks."""

SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL)
HELD_OUT = 2000
"""Sentence pairs in each of test and val of a split set; at most one pair in twenty."""


def unpack(archive: Path, packing: str, files: Sequence[DataFile]) -> dict[str, bytes]:
    """The contents of ``files``, by name.

    Raises:
        DownloadError: the archive is damaged, lacks a member or is larger than ``MAX_BYTES`` inside.
    """
    try:
        return UNPACKERS[packing](archive, files)
    except DownloadError:
        raise
    except DAMAGE as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):  # an offset that is wrong is an invalid argument
            raise  # the system's fault, not the archive's
        raise DownloadError(
            f"{archive.name}: must be an intact archive without password, got another ({error})"
        ) from error
    except UnicodeDecodeError as error:
        raise DownloadError(f"{archive.name}: must hold UTF-8 text, but it does not ({error})") from error


def _plain(archive: Path, files: Sequence[DataFile]) -> dict[str, bytes]:
    with archive.open("rb") as stream:
        content = _bounded(stream, archive)
    return {file.name: content for file in files}


def _gz(archive: Path, files: Sequence[DataFile]) -> dict[str, bytes]:
    with gzip.open(archive) as stream:
        content = _bounded(stream, archive)
    return {file.name: content for file in files}


def _sgm(archive: Path, files: Sequence[DataFile]) -> dict[str, bytes]:
    """WMT's mark-up inside a .tgz: the text of each <seg>, one a line, white space made single."""
    texts = {}
    with tarfile.open(archive, "r:gz") as bundle:
        for file in files:
            try:
                stream = bundle.extractfile(file.member)
            except KeyError:
                stream = None
            if stream is None:
                raise DownloadError(f"{archive.name}: must hold {file.member}, but there is no such file in it")
            text = _bounded(stream, archive).decode("utf-8")
            lines = [" ".join(html.unescape(segment).split()) for segment in SEGMENT.findall(text)]
            texts[file.name] = _joined(lines)
    return texts


def _pairs(archive: Path, files: Sequence[DataFile]) -> dict[str, bytes]:
    """A .zip with one text of ``English <tab> other language <tab> source`` lines, split into train, val and test."""
    with zipfile.ZipFile(archive) as bundle:
        tables = [name for name in bundle.namelist() if name.endswith(".txt") and not name.startswith("_")]
        if len(tables) != 1:
            raise DownloadError(f"{archive.name}: must hold one table of sentences, got {len(tables)}")
        with bundle.open(tables[0]) as stream:
            lines = _bounded(stream, archive).decode("utf-8").split("\n")
    pairs = [line.rstrip("\r").split("\t")[:2] for line in lines if line.count("\t") >= 1]
    parts = split_by_first(pairs)
    if not all(parts.values()):
        raise DownloadError(f"{archive.name}: must hold pairs enough for train, val and test, got {len(pairs)}")
    texts = {}
    for part, chosen in parts.items():
        for file in files:
            name, _, language = file.name.rpartition(".")
            if name == part:
                texts[file.name] = _joined([pair[0 if language == "en" else 1] for pair in chosen])
    return texts


def split_by_first(pairs: Sequence[Sequence[str]]) -> dict[str, list]:
    """``pairs`` in three parts that share no first sentence, in an order that depends on the sentences alone.

    A first sentence with several translations goes to one part whole: a model that has seen it in training
    would otherwise be tested on it.
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


def _bounded(stream: BinaryIO, archive: Path) -> bytes:
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DownloadError(f"{archive.name}: must hold at most {MAX_BYTES} bytes a file, got more")
    return content


def _joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


UNPACKERS = {"plain": _plain, "gz": _gz, "sgm": _sgm, "pairs": _pairs}
