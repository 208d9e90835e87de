"""The data sets of ``data_sets.toml``, with what a user should know before downloading them."""

from dataclasses import dataclass
from pathlib import Path

from minitransformer.errors import MiniTransformerError, quote
from minitransformer.settings import read_toml


class DownloadError(MiniTransformerError, RuntimeError):
    """A data set could not be fetched or is not the file it should be."""


@dataclass(frozen=True)
class DataFile:
    """One text file of a data set (UTF-8, one sentence per line).

    address: URL; several files may come from one archive   md5: of the file at this address; empty: not published
    member: path inside the archive at ``address``, if it is one
    sha256: of the unpacked file; empty: not published, recorded after the first download
    """

    name: str
    address: str
    md5: str = ""
    member: str = ""
    sha256: str = ""

    @property
    def archive(self) -> str:
        return self.address.rpartition("/")[2]


@dataclass(frozen=True)
class DataSet:
    """Files that belong together; ``data_sets.toml`` says what the other fields mean."""

    name: str
    contents: str
    license: str
    checksums: str
    size: str
    files: tuple[DataFile, ...]
    convert: str = ""
    max_bytes: int = 1 << 33  # twice one side of the largest corpus of WMT

    @property
    def addresses(self) -> list[str]:
        return list(dict.fromkeys(file.address for file in self.files))


def read_data_sets() -> dict[str, DataSet]:
    """All data sets by name."""
    table = read_toml(Path(__file__).with_name("data_sets.toml"))
    return {
        name: DataSet(name, files=tuple(file for source in entry.pop("from") for file in _files(source)), **entry)
        for name, entry in table.items()
    }


def _files(source: dict) -> list[DataFile]:
    members, sums = source.get("members", {}), source.get("sha256", {})
    return [
        DataFile(
            name,
            source["address"].format(name=name, parts=name.split(".")),
            source.get("md5", ""),
            members.get(name, ""),
            sums.get(name, ""),
        )
        for name in source.get("files", members or sums)
    ]


def find(name: str) -> DataSet:
    """The data set with this name; DownloadError, which lists the known names, if there is none."""
    data_sets = read_data_sets()
    if name not in data_sets:
        raise DownloadError(f"the name must be one of {', '.join(data_sets)}, got {quote(name)}")
    return data_sets[name]
