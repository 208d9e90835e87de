"""Download a data set from its official addresses, or copy it from a folder; both verify the checksums."""

import http.client
import os
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from itertools import product
from pathlib import Path

from examples.data.errors import DownloadError
from examples.data.registry import DataFile, DataSet
from examples.data.unpacking import md5_of, progress_bar, sha256_of, unpack
from minitransformer.errors import printable, quoted
from minitransformer.files import read_bounded, staging_folder, write_atomically

SUMS, MAX_SUMS = "SHA256SUMS", 1 << 20
TIMEOUT = 30.0
"""Seconds without data after which a connection has timed out."""
CHUNK = 1 << 16
NOT_HTTP = (ValueError, OverflowError)
"""Raised for an answer with impossible values, such as a redirection to an address that is none."""

Archive = tuple[Path, str, list[DataFile]]
"""Path of a file or archive, its packing, and the files that it contains."""


def get(data_set: DataSet, folder: Path) -> Path:
    """Download the missing files of ``data_set`` into ``folder / data_set.name``; returns that folder.

    An interrupted download stays there as ``*.part``, and the next call resumes it.

    Raises:
        DownloadError: no network, an HTTP error, an interrupted connection or a wrong checksum.
    """
    home = folder / data_set.name
    home.mkdir(parents=True, exist_ok=True)
    sums = _known_sums(data_set, home)
    missing = [file for file in data_set.files if not _is_there(home / file.name, sums.get(file.name))]
    if not missing:
        print(f"{home}: all {len(data_set.files)} files exist and have the expected SHA-256")
        return home
    print("The addresses below are the official ones, but this program has not been tested with them.")
    new = {}
    for address in dict.fromkeys(file.address for file in missing):
        wanted = [file for file in missing if file.address == address]
        print(f"{address} -> {', '.join(file.name for file in wanted)}")
        archive = fetch(address, home / f"{_base_name(address)}.part")
        try:
            new |= _install([(archive, data_set.packing, wanted)], data_set, home, address)
        except DownloadError:
            archive.unlink()  # a complete but wrong download would be wrong again if it were resumed
            raise
        archive.unlink()
    _record(data_set, home, new)
    return home


def copy_from(source: Path, data_set: DataSet, folder: Path) -> Path:
    """Copy ``data_set`` from ``source`` (or ``source / data_set.name``) and verify it; returns the new folder.

    ``source`` contains the files themselves, or the archives as downloaded from their addresses.

    Raises:
        DownloadError: a file is missing or has a wrong checksum; nothing is copied then.
    """
    home = folder / data_set.name
    new = _install(_locate(source, data_set), data_set, home, str(source))
    print(f"{home}: {len(new)} files copied from {source}")
    _record(data_set, home, new)
    return home


def _locate(source: Path, data_set: DataSet) -> list[Archive]:
    """The files and archives in ``source`` that contain the data set."""
    found: dict[tuple[Path, str], list[DataFile]] = {}
    for file in data_set.files:
        names = {file.name: "plain", _base_name(file.address): data_set.packing}
        for folder, (name, packing) in product((source / data_set.name, source), names.items()):
            if (folder / name).is_file():
                found.setdefault((folder / name, packing), []).append(file)
                break
        else:
            raise DownloadError(
                f"{source} must contain {' or '.join(names)}, directly or in {data_set.name}/, but it does not"
            )
    return [(path, packing, files) for (path, packing), files in found.items()]


def _install(archives: list[Archive], data_set: DataSet, home: Path, where: str) -> dict[str, str]:
    """Unpack all files, verify them, and only then move them into ``home``; returns the SHA-256 of each.

    where: address or folder from which the files come, for error messages
    """
    known = _known_sums(data_set, home)
    with staging_folder(home / "unpacking") as staging:
        sums = {}
        for path, packing, files in archives:
            _check_archive(path, packing, files, data_set, where)
            sums |= unpack(path, packing, files, staging, data_set.max_bytes)
        for name, got in sums.items():
            if got != known.get(name, got):
                published = any(file.name == name and file.sha256 for file in data_set.files)
                remedy = "" if published else f"; to accept it anyway, delete {SUMS}"
                raise DownloadError(
                    f"{where}: {name} must have the SHA-256 {printable(known[name], 64)}, got {got} (damaged or "
                    f"another version){remedy}"
                )
        for name in sums:
            os.replace(staging / name, home / name)
    return sums


def _check_archive(path: Path, packing: str, files: list[DataFile], data_set: DataSet, where: str) -> None:
    """DownloadError if the MD5 of the archive of these files is known and is not that of ``path``."""
    address = files[0].address
    known = data_set.archive_md5.get(address) if packing == data_set.packing else None  # else the unpacked file itself
    if known and (got := md5_of(path)) != known:
        raise DownloadError(
            f"{where}: {_base_name(address)} must have the MD5 {known}, got {got} (damaged or another version)"
        )


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
        if start and error.code == 416 and error.headers.get("Content-Range", "") == f"bytes */{start}":
            return part  # the download was already complete
        if error.code == 416:
            part.unlink(missing_ok=True)
        raise DownloadError(
            f"{address}: the server must send the file, got {error.code} {printable(error.reason, 60)}"
        ) from error
    except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException, *NOT_HTTP) as error:
        reason = printable(str(getattr(error, "reason", None) or error), 100)
        raise DownloadError(
            f"{address}: cannot be reached ({reason}); without a network, copy the files here and use --from FOLDER"
        ) from error
    return part


def _receive(response: http.client.HTTPResponse, part: Path, start: int, address: str) -> None:
    """Append the body of ``response`` to the first ``start`` bytes of ``part``."""
    total = None if response.length is None else start + response.length  # None: not stated, or not as a number
    lost = (ConnectionError, TimeoutError, ssl.SSLError, http.client.IncompleteRead)  # not OSError: a full disk too
    complete = False
    with (
        open(part, "ab" if start else "wb", opener=_open_no_link) as out,
        progress_bar(_base_name(address), total, start) as progress,
    ):
        with suppress(*lost):
            while chunk := response.read(CHUNK):
                out.write(chunk)
                progress.update(len(chunk))
            complete = total is None or out.tell() >= total
        got = out.tell()
    if not complete:
        wanted = quoted(total, 60) if total else "unknown"
        raise DownloadError(
            f"{address}: the connection was interrupted after {got} of {wanted} bytes; run the same command again to "
            "resume the download"
        )


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


def _is_there(path: Path, sha256: str | None) -> bool:
    return path.is_file() and sha256 is not None and sha256_of(path) == sha256


def _record(data_set: DataSet, home: Path, new: dict[str, str]) -> None:
    """Write the checksums of all files in the format of ``sha256sum --check``."""
    known = _known_sums(data_set, home)
    sums = {file.name: new.get(file.name) or known[file.name] for file in data_set.files}
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    if (home / SUMS).is_symlink():
        (home / SUMS).unlink()  # writing would follow it
    write_atomically(home / SUMS, lambda file: file.write(text.encode()))
    unpublished = [name for name in sums if name not in known]
    if unpublished:
        print(f"{home / SUMS}: recorded the SHA-256 of {len(unpublished)} files; no published checksum exists")
    else:
        print(f"{home}: all {len(sums)} files have the expected SHA-256")


def _base_name(address: str) -> str:
    return address.rpartition("/")[2]
