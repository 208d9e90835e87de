"""Read members of a tar archive in memory that does not grow with the archive."""

import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from examples.data.errors import DownloadError
from examples.data.registry import DataFile

MAX_HEADERS = 1 << 21
"""Bytes of all headers of an archive: of 4,096 members with short names, many times as many as a data set has."""

MAX_UNPACKED = 16
"""Size of the largest archive, unpacked, in units of its largest file."""

LONG_HEADERS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
"""Headers with contents: a long name or other facts about the next member."""
MAX_LONG_HEADER = 1 << 16


def members(archive: Path, files: Sequence[DataFile], limit: int) -> Iterator[tuple[DataFile, BinaryIO]]:
    """The members of a tar archive, compressed or not, that ``files`` name, in the order of the archive.

    limit: bytes of the largest file that is expected

    Raises:
        DownloadError: a member is missing or not a file, or the archive has more or larger members than it should.
        tarfile.TarError: the archive is damaged.
    """
    wanted: dict[str, list[DataFile]] = {}
    for file in files:
        wanted.setdefault(file.member, []).append(file)
    with _TarFile.open(archive, "r:*") as bundle:
        while (entry := bundle.next()) is not None:
            bundle.members.clear()  # tarfile keeps the headers of all members
            if not entry.offset_data <= bundle.offset <= MAX_UNPACKED * limit:  # the size may be any number
                raise DownloadError(f"{archive.name}: must unpack to at most {MAX_UNPACKED * limit} bytes, got more")
            for file in wanted.pop(entry.name.removeprefix("./"), ()):
                if not entry.isreg() or entry.issparse():  # a sparse file of 500 bytes may unpack to any size
                    raise DownloadError(
                        f"{archive.name}: {entry.name} must be a file, got a folder, a link or a sparse file"
                    )
                yield file, bundle.extractfile(entry)
    if wanted:
        raise DownloadError(f"{archive.name}: must contain {min(wanted)}, but it does not")


class _TarInfo(tarfile.TarInfo):
    """A header. tarfile itself reads long ones, chains of them and the maps of sparse files, whatever their size."""

    def _proc_member(self, bundle: "_TarFile") -> tarfile.TarInfo:
        """The member that this header, or the one after it, describes: tarfile calls this for every header."""
        long = self.size if self.type in LONG_HEADERS else 0
        bundle.header_bytes += tarfile.BLOCKSIZE + long
        if self.type in (tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE):  # every later member would get a copy of the former
            raise bundle.error("must have no global header and no sparse file, but it has")
        if not 0 <= long <= MAX_LONG_HEADER:
            raise bundle.error(f"a long name must have 0 to {MAX_LONG_HEADER} bytes, got {long}")
        if bundle.header_bytes > MAX_HEADERS:
            raise bundle.error(f"must have at most {MAX_HEADERS} bytes of headers, got more")
        return super()._proc_member(bundle)

    def _proc_gnusparse_10(self, _next: object, _pax: object, bundle: "_TarFile") -> None:
        raise bundle.error("must have no sparse file, but it has")


class _TarFile(tarfile.TarFile):
    tarinfo = _TarInfo
    header_bytes = 0

    def error(self, reason: str) -> DownloadError:
        return DownloadError(f"{Path(self.name).name}: {reason}")
