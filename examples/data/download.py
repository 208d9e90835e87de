"""Download a data set from its official addresses, or copy it from a folder; both verify the checksums."""

import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from tqdm import tqdm

from examples.data.archives import unpack
from examples.data.registry import DataFile, DataSet, DownloadError
from minitransformer.errors import printable, quote
from minitransformer.files import read_bounded, staging_folder, write_text

SUMS, MAX_SUMS = "SHA256SUMS", 1 << 20
TIMEOUT = 30.0
"""Seconds without data after which a connection has timed out."""
READ_BYTES = 1 << 16
UNREACHABLE = (
    urllib.error.URLError,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    http.client.HTTPException,
    ValueError,
    OverflowError,
)
"""Not OSError, which a full disk raises too. ValueError, OverflowError: an answer with impossible values, such as a
redirection to an address that is none."""


def get(data_set: DataSet, folder: Path) -> Path:
    """Download the missing files of ``data_set`` into ``folder / data_set.name``; returns that folder.

    An interrupted download stays there as ``*.part``, and the next call resumes it.

    Raises:
        DownloadError: no network, an HTTP error, an interrupted connection or a wrong checksum.
    """
    home = folder / data_set.name
    home.mkdir(parents=True, exist_ok=True)
    known = _known_sums(data_set, home)
    missing = [file for file in data_set.files if _digest(home / file.name, "sha256") != known.get(file.name, "none")]
    if not missing:
        print(f"{home}: all {len(data_set.files)} files exist and have the expected SHA-256")
        return home
    print("The addresses below are the official ones, but this program has not been tested with them.")
    for address in dict.fromkeys(file.address for file in missing):
        wanted = [file for file in missing if file.address == address]
        print(f"{address} -> {', '.join(file.name for file in wanted)}")
        archive = fetch(address, home / f"{wanted[0].archive}.part")
        try:
            _install({archive: wanted}, data_set, home, address)
        except DownloadError:
            archive.unlink()  # a complete but wrong download would be wrong again if it were resumed
            raise
        archive.unlink()
    _report(data_set, home)
    return home


def copy_from(source: Path, data_set: DataSet, folder: Path) -> Path:
    """Copy ``data_set`` from ``source`` (or ``source / data_set.name``) and verify it; returns the new folder.

    ``source`` contains the files themselves, or the archives as downloaded from their addresses.

    Raises:
        DownloadError: a file is missing or has a wrong checksum; nothing is copied then.
    """
    home = folder / data_set.name
    _install(_locate(source, data_set), data_set, home, str(source))
    print(f"{home}: {len(data_set.files)} files copied from {source}")
    _report(data_set, home)
    return home


def _locate(source: Path, data_set: DataSet) -> dict[Path, list[DataFile]]:
    """The files and archives in ``source`` that contain the data set."""
    found: dict[Path, list[DataFile]] = {}
    for file in data_set.files:
        unpacked = replace(file, md5="", member="")
        names = {file.archive: file, file.name: unpacked}
        for folder, name in product((source / data_set.name, source), (file.name, file.archive)):
            if (folder / name).is_file():
                found.setdefault(folder / name, []).append(names[name])
                break
        else:
            raise DownloadError(
                f"{source} must contain {' or '.join(dict.fromkeys((file.name, file.archive)))}, directly or in "
                f"{data_set.name}/, but it does not"
            )
    return found


def _install(archives: Mapping[Path, Sequence[DataFile]], data_set: DataSet, home: Path, where: str) -> None:
    """Unpack all files, verify them, and only then move them into ``home`` and record their SHA-256.

    where: address or folder from which the files come, for error messages
    """
    known = _known_sums(data_set, home)
    sums = dict(known)
    with staging_folder(home / "unpacking") as staging:
        for path, files in archives.items():
            if files[0].md5 and (md5 := _digest(path, "md5")) != files[0].md5:
                what = f"{files[0].archive} must have the MD5 {files[0].md5}, got {md5}"
                raise DownloadError(f"{where}: {what} (damaged or another version)")
            unpack(path, files, data_set, staging)
            for file in files:
                got = sums[file.name] = _digest(staging / file.name, "sha256")
                if got != known.get(file.name, got):
                    remedy = "" if file.sha256 else f"; to accept it anyway, delete {SUMS}"
                    raise DownloadError(
                        f"{where}: {file.name} must have the SHA-256 {printable(known[file.name], 64)}, got {got} "
                        f"(damaged or another version){remedy}"
                    )
        for path in staging.iterdir():
            os.replace(path, home / path.name)
    if (home / SUMS).is_symlink():
        (home / SUMS).unlink()  # writing would follow it
    lines = "".join(f"{sums[file.name]}  {file.name}\n" for file in data_set.files if file.name in sums)
    write_text(home / SUMS, lines)  # in the format of sha256sum --check


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
            resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            _receive(response, part, start if resumed else 0)
    except urllib.error.HTTPError as error:
        if start and error.code == 416 and error.headers.get("Content-Range", "") == f"bytes */{start}":
            return part  # the download was already complete
        if error.code == 416:
            part.unlink(missing_ok=True)
        raise DownloadError(
            f"{address}: the server must send the file, got {error.code} {printable(error.reason, 60)}"
        ) from error
    except UNREACHABLE as error:
        got = part.stat().st_size if part.exists() else 0
        trouble = f"the connection was interrupted after {got} bytes" if got else "cannot be reached"
        raise DownloadError(
            f"{address}: {trouble} ({printable(str(getattr(error, 'reason', None) or error), 100)}); run the same "
            "command again to resume, or copy the files here and use --from FOLDER"
        ) from error
    return part


def _receive(response: http.client.HTTPResponse, part: Path, start: int) -> None:
    """Append the body of ``response`` to the first ``start`` bytes of ``part``."""
    total = None if response.length is None else start + response.length  # None: not stated, or not as a number
    bar = tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None)
    with open(part, "ab" if start else "wb", opener=_open_no_link) as out, bar:
        while chunk := response.read(READ_BYTES):
            out.write(chunk)
            bar.update(len(chunk))
    if response.length:
        raise ConnectionError(f"{quote(response.length, 60)} bytes are missing")


def _open_no_link(path: str, flags: int) -> int:
    """`os.open`, but OSError for a link, which somebody may have planted in a shared folder."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _known_sums(data_set: DataSet, home: Path) -> dict[str, str]:
    """SHA-256 of each file, from the registry or else as recorded after the first download."""
    recorded = {}
    if (home / SUMS).is_file():
        for line in read_bounded(home / SUMS, MAX_SUMS).decode("utf-8", errors="replace").split("\n"):
            digest, _, name = line.partition("  ")
            recorded[name] = digest
    sums = {file.name: file.sha256 or recorded.get(file.name) for file in data_set.files}
    return {name: digest for name, digest in sums.items() if digest}


def _digest(path: Path, algorithm: str) -> str:
    """In hexadecimal, "" of no file. An MD5 detects damage alone: anybody can make another file with the same one."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _report(data_set: DataSet, home: Path) -> None:
    if unpublished := sum(not file.sha256 for file in data_set.files):
        print(f"{home / SUMS}: recorded the SHA-256 of {unpublished} files; no published checksum exists")
    else:
        print(f"{home}: all {len(data_set.files)} files have the expected SHA-256")
