"""The data sets that ``data get`` knows: contents, licence, checksums."""

import pytest

from minitransformer.data import DATA_SETS, copy_from, find, unpacking


def test_every_data_set_states_its_contents_and_licence():
    for data_set in DATA_SETS:
        assert data_set.licence and data_set.contents and data_set.checksums and data_set.size
        assert data_set.packing in unpacking.UNPACKERS
        assert all(file.address.startswith("https://") for file in data_set.files)
        assert data_set.packing not in ("tar", "sgm") or all(file.member for file in data_set.files)
        assert ("recorded" in data_set.checksums) == any(file.sha256 is None for file in data_set.files)


@pytest.mark.parametrize(
    ("name", "files"),
    [("wmt14-en-de", 6), ("wmt14-en-fr", 10), ("iwslt14", 6), ("tatoeba", 6), ("multi30k", 11), ("newstest", 8)],
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
