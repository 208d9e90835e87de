"""Download a data set from its official addresses, or copy it from a folder; both verify the checksums."""

import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

from tqdm import tqdm

from minitransformer.data.registry import DataFile, DataSet
from minitransformer.data.unpacking import Stream, unpack
from minitransformer.errors import DownloadError
from minitransformer.files import write_atomically

SUMS = "SHA256SUMS"
TIMEOUT = 30.0
"""Seconds without data after which a connection has timed out."""
CHUNK = 1 << 16

Report = Callable[[str], None]


def get(data_set: DataSet, folder: Path, report: Report = print) -> Path:
    """Download the missing files of ``data_set`` into ``folder / data_set.name``; returns that folder.

    An interrupted download stays there as ``*.part``, and the next call resumes it.

    Raises:
        DownloadError: no network, an HTTP error, an interrupted connection or a wrong checksum.
    """
    home = folder / data_set.name
    home.mkdir(parents=True, exist_ok=True)
    known = _known_sums(data_set, home)
    missing = [file for file in data_set.files if not _is_there(home / file.name, known.get(file.name))]
    if not missing:
        report(f"{home}: all {len(data_set.files)} files exist and have the expected SHA-256")
        return home
    if not data_set.tried:
        report("The addresses below are the official ones, but this program has not been tested with them.")
    sums = {}
    for address in dict.fromkeys(file.address for file in missing):
        wanted = [file for file in missing if file.address == address]
        report(f"{address} -> {', '.join(file.name for file in wanted)}")
        archive = fetch(address, home / f"{_base_name(address)}.part")
        staging = Staging(home)
        try:
            staging.add(unpack(archive, data_set.packing, wanted))
            _check_all(data_set, staging.sums, known, address)
        except DownloadError:
            staging.discard()
            archive.unlink()  # a complete but wrong download would be wrong again if it were resumed
            raise
        except BaseException:
            staging.discard()
            raise
        sums |= staging.keep()
        archive.unlink()
    _record(data_set, home, known, sums, report)
    return home


def copy_from(source: Path, data_set: DataSet, folder: Path, report: Report = print) -> Path:
    """Copy ``data_set`` from ``source`` (or ``source / data_set.name``) and verify it; returns the new folder.

    ``source`` contains the files themselves, or the archives as downloaded from their addresses.

    Raises:
        DownloadError: a file is missing or has a wrong checksum; nothing is copied then.
    """
    home = folder / data_set.name
    known = _known_sums(data_set, home)
    found = _locate(source, data_set)
    created = [path for path in (home, folder) if not path.exists()]
    home.mkdir(parents=True, exist_ok=True)
    staging = Staging(home)
    try:
        for path, packing, files in found:
            staging.add(unpack(path, packing, files))
        _check_all(data_set, staging.sums, known, str(source))
    except BaseException:
        staging.discard()
        for path in created:
            path.rmdir()
        raise
    sums = staging.keep()
    report(f"{home}: {len(sums)} files copied from {source}")
    _record(data_set, home, known, sums, report)
    return home


def _locate(source: Path, data_set: DataSet) -> list[tuple[Path, str, list[DataFile]]]:
    """(path of a file or archive, its packing, the files it contains)"""
    found: dict[tuple[Path, str], list[DataFile]] = {}
    for file in data_set.files:
        for parent in (source / data_set.name, source):
            if (parent / file.name).is_file():
                found[parent / file.name, "plain"] = [file]
                break
            if (parent / _base_name(file.address)).is_file():
                found.setdefault((parent / _base_name(file.address), data_set.packing), []).append(file)
                break
        else:
            raise DownloadError(
                f"data get: {source} must contain {file.name} or {_base_name(file.address)}, "
                f"directly or in {data_set.name}/, but it does not"
            )
    return [(path, packing, files) for (path, packing), files in found.items()]


class Staging:
    """Files written under temporary names and hashed; then either all are kept or none."""

    def __init__(self, home: Path):
        self.home = home
        self.sums: dict[str, str] = {}

    def add(self, streams: Iterable[Stream]) -> None:
        for name, chunks in streams:
            digest = hashlib.sha256()
            self.sums[name] = ""  # so that a partly written file is discarded too
            with open(self._path(name), "wb") as out, _bar(f"unpack {name}") as bar:
                for chunk in chunks:
                    out.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            self.sums[name] = digest.hexdigest()

    def keep(self) -> dict[str, str]:
        """Rename the files to their final names; returns the SHA-256 of each."""
        for name in self.sums:
            os.replace(self._path(name), self.home / name)
        return self.sums

    def discard(self) -> None:
        for name in self.sums:
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.home / f".{name}.unpacking"


def fetch(address: str, part: Path) -> Path:
    """Download ``address`` into ``part``, resuming an interrupted download; returns ``part``, complete.

    If the file changed before the download was resumed, the archive's own check or the SHA-256 detects it later.
    """
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "minitransformer"}  # some servers reject Python's default
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT) as response:
            if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                start = 0  # the server sends the whole file
            _receive(response, part, start, address)
    except urllib.error.HTTPError as error:
        if error.code == 416 and error.headers.get("Content-Range", "") == f"bytes */{start}":
            return part  # the download was already complete
        if error.code == 416:
            part.unlink()
        raise DownloadError(f"{address}: the server must send the file, got {error.code} {error.reason}") from error
    except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(
            f"{address}: cannot be reached ({reason}); without a network, copy the files here and use --from FOLDER"
        ) from error
    return part


def _receive(response: http.client.HTTPResponse, part: Path, start: int, address: str) -> None:
    """Append the body of ``response`` to the first ``start`` bytes of ``part``."""
    length = response.headers.get("Content-Length")
    total = start + int(length) if length is not None else None
    with part.open("r+b" if start else "wb") as out, _bar(_base_name(address), total, start) as progress:
        out.seek(start)
        cut = False
        try:
            while chunk := response.read(CHUNK):
                out.write(chunk)
                progress.update(len(chunk))
        except http.client.IncompleteRead as error:
            out.write(error.partial)
            cut = True
        except (
            ConnectionError,
            TimeoutError,
            ssl.SSLError,
        ):  # not OSError: that may be a full disk
            cut = True
        got = out.tell()
    if cut or (total is not None and got < total):
        raise DownloadError(
            f"{address}: the connection was interrupted after {got} of {total or 'unknown'} bytes; "
            "run the same command again to resume the download"
        )


def _bar(what: str, total: int | None = None, start: int = 0) -> tqdm:
    """A progress bar in bytes, shown only on a terminal."""
    return tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=what, disable=None)


def _known_sums(data_set: DataSet, home: Path) -> dict[str, str]:
    """SHA-256 of each file, from the registry or else as recorded after the first download."""
    recorded = {}
    if (home / SUMS).is_file():
        for line in (home / SUMS).read_text(encoding="utf-8", errors="replace").split("\n"):
            digest, _, name = line.partition("  ")
            recorded[name] = digest
    sums = {file.name: file.sha256 or recorded.get(file.name) for file in data_set.files}
    return {name: digest for name, digest in sums.items() if digest}


def _is_there(path: Path, sha256: str | None) -> bool:
    return path.is_file() and sha256 is not None and _digest(path) == sha256


def _check_all(data_set: DataSet, sums: dict[str, str], known: dict[str, str], where: str) -> None:
    published = {file.name for file in data_set.files if file.sha256}
    for name, got in sums.items():
        if name in known and got != known[name]:
            remedy = "" if name in published else f"; to accept it anyway, delete {SUMS}"
            raise DownloadError(
                f"{where}: {name} must have the SHA-256 {known[name]}, got {got} (damaged or another version){remedy}"
            )


def _record(data_set: DataSet, home: Path, known: dict[str, str], new: dict[str, str], report: Report) -> None:
    """Write the checksums of all files in the format of ``sha256sum --check``."""
    sums = {file.name: new.get(file.name) or known[file.name] for file in data_set.files}
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    write_atomically(home / SUMS, lambda file: file.write(text.encode()))
    unpublished = [file.name for file in data_set.files if file.name not in known]
    if unpublished:
        report(f"{home / SUMS}: recorded the SHA-256 of {', '.join(unpublished)}; no published checksum exists")
    else:
        report(f"{home}: all {len(sums)} files have the expected SHA-256")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _base_name(address: str) -> str:
    return address.rpartition("/")[2]
