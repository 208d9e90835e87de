"""From what lies at an address to text files."""

import dataclasses
import gzip
import io
import tarfile
import zipfile

import pytest

from minitransformer.data import DataFile, find, unpacking
from minitransformer.data.unpacking import split_by_first, unpack
from minitransformer.errors import DownloadError


def test_the_segments_of_wmt_mark_up_become_lines(tmp_path):
    sgm = b'<doc>\n<seg id="1">Standard &amp; Poor\'s  said</seg>\n<seg id="2"> two\nlines </seg>\n</doc>\n'
    with tarfile.open(tmp_path / "test.tgz", "w:gz") as bundle:
        member = tarfile.TarInfo("test/a.sgm")
        member.size = len(sgm)
        bundle.addfile(member, io.BytesIO(sgm))
    file = DataFile("a.en", "", member="test/a.sgm")
    assert unpack(tmp_path / "test.tgz", "sgm", [file]) == {"a.en": b"Standard & Poor's said\ntwo lines\n"}
    with pytest.raises(DownloadError, match="must hold test/b.sgm"):
        unpack(tmp_path / "test.tgz", "sgm", [dataclasses.replace(file, member="test/b.sgm")])


def test_a_split_set_keeps_pairs_aligned_and_no_english_sentence_in_two_parts(tmp_path):
    pairs = [(f"English {number // 7}", f"Deutsch {number}") for number in range(600)]
    with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w") as bundle:
        bundle.writestr("deu.txt", "".join(f"{en}\t{de}\tsource\n" for en, de in pairs))
        bundle.writestr("_about.txt", "no table")
    texts = unpack(tmp_path / "deu-eng.zip", "pairs", find("tatoeba_en_de").files)
    parts = {}
    for part in ("train", "val", "test"):
        english, german = (texts[f"{part}.{side}"].decode().split("\n")[:-1] for side in ("en", "de"))
        assert all(pair in pairs for pair in zip(english, german, strict=True))
        parts[part] = set(english)
        assert part == "train" or 30 <= len(english) < 30 + 7  # one pair in twenty, and the rest of a last sentence
    assert sum(texts[f"{part}.en"].count(b"\n") for part in parts) == 600
    assert not parts["train"] & parts["val"] and not parts["train"] & parts["test"] and not parts["val"] & parts["test"]


@pytest.mark.parametrize("n_pairs", [0, 19])
def test_a_table_too_short_to_be_split_is_refused(tmp_path, n_pairs):
    with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w") as bundle:
        bundle.writestr("deu.txt", "".join(f"English {number}\tDeutsch\n" for number in range(n_pairs)))
    with pytest.raises(DownloadError, match=f"must hold pairs enough for train, val and test, got {n_pairs}"):
        unpack(tmp_path / "deu-eng.zip", "pairs", find("tatoeba_en_de").files)


@pytest.mark.parametrize("damage", ["password", "packing", "lzma", "bz2", "offset"])
def test_an_archive_that_zipfile_cannot_open_is_refused(tmp_path, damage):
    packing = {"lzma": zipfile.ZIP_LZMA, "bz2": zipfile.ZIP_BZIP2}.get(damage, zipfile.ZIP_STORED)
    path = tmp_path / "deu-eng.zip"
    with zipfile.ZipFile(path, "w", packing) as bundle:
        bundle.writestr("deu.txt", "English\tDeutsch\n" * 100)
    content = bytearray(path.read_bytes())
    local, central = 0, content.index(b"PK\x01\x02")
    if damage == "password":
        content[local + 6] |= 1
        content[central + 8] |= 1
    elif damage == "packing":
        content[local + 8] = content[central + 10] = 99
    elif damage == "offset":
        content[-3] ^= 1 << 7  # top byte of where the directory begins
    else:
        content[30 + len("deu.txt") + 9 : central] = b"\xff" * (central - 30 - len("deu.txt") - 9)
    path.write_bytes(content)
    with pytest.raises(DownloadError, match=r"deu-eng\.zip: must be an intact archive without password, got another"):
        unpack(path, "pairs", find("tatoeba_en_de").files)


def test_a_split_does_not_depend_on_the_order_of_the_sentences(rng):
    pairs = [(f"English {number}", f"Deutsch {number}") for number in range(200)]
    shuffled = [pairs[number] for number in rng.permutation(200)]
    assert split_by_first(pairs) == split_by_first(shuffled)


def test_a_file_that_unpacks_to_more_than_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_BYTES", 1000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(DownloadError, match="at most 1000 bytes"):
        unpack(tmp_path / "a.gz", "gz", [DataFile("a", "")])
