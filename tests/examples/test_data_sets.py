"""The data sets that ``data get`` knows: contents, license, checksums."""

import hashlib
import shutil
import tarfile

import pytest
from extras import need

from examples.data import DataFile, DataSet, DownloadError, archives, copy_from, download, find, get, read_data_sets


def test_every_data_set_states_its_contents_and_license():
    for data_set in read_data_sets().values():
        assert data_set.license and data_set.contents and data_set.checksums and data_set.size
        assert data_set.convert in archives.CONVERTERS
        assert all(file.address.startswith("https://") for file in data_set.files)
        assert all(bool(file.member) == file.archive.endswith((".tgz", ".tar", ".zip")) for file in data_set.files)
        assert ("recorded" in data_set.checksums) == (not all(file.sha256 for file in data_set.files))


@pytest.mark.parametrize(
    ("name", "files"),
    [("wmt14-en-de", 6), ("wmt14-en-fr", 10), ("tatoeba_en_ko", 6), ("multi30k", 11), ("newstest", 8)],
)
def test_the_data_sets_have_both_sides_of_each_part(name, files):
    parts = [file.name.rpartition(".")[0] for file in find(name).files]
    assert len(parts) == files and all(parts.count(part) >= 2 for part in parts)


def test_the_trees_are_split_by_article():
    parts = [file.name.split(".")[0] for file in find("craft_trees").files]
    assert {part: parts.count(part) for part in parts} == {"train": 81, "dev": 8, "test": 8}
    assert len({file.address for file in find("craft_trees").files}) == 97


def test_the_published_checksums_are_those_of_the_real_files(data_folder, tmp_path):
    for name in ("multi30k", "bpe_reference"):
        home = copy_from(data_folder, find(name), tmp_path)
        assert {path.name for path in home.iterdir()} == {file.name for file in find(name).files} | {"SHA256SUMS"}


def test_the_test_sets_of_wmt_come_from_the_archives_that_sacrebleu_checks():
    dataset = need("sacrebleu.dataset")
    theirs = [dataset.DATASETS[name] for name in ("wmt13", "wmt14/full")]
    published = {address: md5 for each in theirs for address, md5 in zip(each.data, each.md5, strict=True)}
    newstest = find("newstest")
    assert {file.address: file.md5 for file in newstest.files} == published


@pytest.fixture
def packed(tmp_path) -> tuple[DataSet, str]:
    """A data set of one file, in an archive whose MD5 is published; and the path of that archive."""
    (tmp_path / "text").write_text("one\ntwo\n")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        archive.add(tmp_path / "text", "text")
    md5 = hashlib.md5((tmp_path / "a.tgz").read_bytes(), usedforsecurity=False).hexdigest()
    file = DataFile("a.en", "https://localhost/a.tgz", md5, "text")
    return DataSet("one", "", "", "recorded", "", (file,)), tmp_path / "a.tgz"


@pytest.mark.parametrize("how", ["get", "copy_from"])
def test_an_archive_whose_md5_is_not_the_published_one_is_not_unpacked(packed, how, tmp_path, monkeypatch):
    data_set, archive = packed
    monkeypatch.setattr(download, "fetch", lambda address, part: shutil.copy(archive, part))

    def install(folder):
        return get(data_set, folder) if how == "get" else copy_from(tmp_path, data_set, folder)

    assert (install(tmp_path / "good") / "a.en").read_text() == "one\ntwo\n"
    archive.write_bytes(archive.read_bytes() + b"\0" * 512)  # still an intact archive
    monkeypatch.setattr(download, "unpack", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(DownloadError, match=f"a.tgz must have the MD5 {data_set.files[0].md5}, got \\w{{32}} "):
        install(tmp_path / "bad")
    assert not any(path.is_file() for path in (tmp_path / "bad").rglob("*"))
