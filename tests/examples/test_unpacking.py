"""Unpacking: the text files in the archives of each data set."""

import dataclasses
import gzip
import hashlib
import io
import shutil
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from examples.data import DataFile, find, unpacking
from examples.data.errors import DownloadError
from examples.data.unpacking import split_by_first


def unpack(archive, packing, files, **limits):
    """The contents of the files, by name; the checksums that `unpacking.unpack` returns are theirs."""
    folder = archive.with_name("unpacked")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sums = unpacking.unpack(archive, packing, files, folder, **limits)
    contents = {file.name: (folder / file.name).read_bytes() for file in files}
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return contents


def tar(path, members, packing="gz"):
    with tarfile.open(path, f"w:{packing}") as bundle:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            bundle.addfile(member, io.BytesIO(content))
    return path


def test_the_segments_of_wmt_mark_up_become_lines(tmp_path):
    sgm = b'<doc>\n<seg id="1">Standard &amp; Poor\'s  said</seg>\n<seg id="2"> two\nlines </seg>\n</doc>\n'
    tar(tmp_path / "test.tgz", {"test/a.sgm": sgm})
    file = DataFile("a.en", "", member="test/a.sgm")
    assert unpack(tmp_path / "test.tgz", "sgm", [file]) == {"a.en": b"Standard & Poor's said\ntwo lines\n"}
    with pytest.raises(DownloadError, match="must contain test/b.sgm"):
        unpack(tmp_path / "test.tgz", "sgm", [dataclasses.replace(file, member="test/b.sgm")])


def test_a_split_keeps_pairs_aligned_and_each_english_sentence_in_one_part(tmp_path):
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
    with pytest.raises(DownloadError, match=f"must contain enough pairs for train, val and test, got {n_pairs}"):
        unpack(tmp_path / "deu-eng.zip", "pairs", find("tatoeba_en_de").files)


def test_a_table_of_one_line_of_tabs_is_refused_in_small_memory(tmp_path):
    with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("deu.txt", b"\t" * 20_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(DownloadError, match="must contain enough pairs for train, val and test, got 1"):
            unpack(tmp_path / "deu-eng.zip", "pairs", find("tatoeba_en_de").files)
        assert tracemalloc.get_traced_memory()[1] < 120_000_000
    finally:
        tracemalloc.stop()


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
    with pytest.raises(DownloadError, match=r"deu-eng\.zip: must be an intact archive without a password, got another"):
        unpack(path, "pairs", find("tatoeba_en_de").files)


def test_a_split_does_not_depend_on_the_order_of_the_sentences(rng):
    pairs = [(f"English {number}", f"Deutsch {number}") for number in range(200)]
    shuffled = [pairs[number] for number in rng.permutation(200)]
    assert split_by_first(pairs) == split_by_first(shuffled)


def test_members_of_a_tar_are_found_by_path_and_decompressed(tmp_path):
    path = tar(
        tmp_path / "a.tar", {"un/b.fr": b"deux\n", "x": b"not wanted", "./giga.en.gz": gzip.compress(b"one\n")}, ""
    )
    files = [DataFile("giga.en", "", member="giga.en.gz"), DataFile("un.fr", "", member="un/b.fr")]
    assert unpack(path, "tar", files) == {"giga.en": b"one\n", "un.fr": b"deux\n"}
    with pytest.raises(DownloadError, match="must contain un/c.fr, but it does not"):
        unpack(path, "tar", [*files, DataFile("c", "", member="un/c.fr")])


def test_a_link_a_folder_or_a_sparse_file_as_a_member_is_refused(tmp_path):
    for kind in (tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE):
        with tarfile.open(tmp_path / "a.tgz", "w:gz") as bundle:
            member = tarfile.TarInfo("text.en")
            member.type, member.linkname = kind, "../../etc/passwd"
            bundle.addfile(member)
        with pytest.raises(DownloadError, match="text.en must be a file, got|must have no .* sparse file"):
            unpack(tmp_path / "a.tgz", "tar", [DataFile("text.en", "", member="text.en")])


def test_a_decompression_bomb_is_refused_before_it_fills_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "CHUNK", 100)
    bomb = gzip.compress(bytes(1001))
    (tmp_path / "big.gz").write_bytes(bomb)
    for path, packing in ((tmp_path / "big.gz", "gz"), (tar(tmp_path / "a.tgz", {"big.gz": bomb}), "tar")):
        with pytest.raises(DownloadError, match="at most 1000 bytes, got more$"):
            unpack(path, packing, [DataFile("big", "", member="big.gz")], max_bytes=1000)
        assert (tmp_path / "unpacked" / "big").stat().st_size == 1000


def test_a_table_of_too_many_lines_or_bytes_is_refused_in_small_memory(tmp_path):
    """A zip of 10 kB: 2.5 million pairs of sentences of one letter, or one line of 130 MB."""
    data_set = find("tatoeba_en_de")
    for text, message in ((b"a\tb\n" * 2_500_000, "at most 1000000 lines, got 2500000"), (bytes(140_000_000), "bytes")):
        with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("deu.txt", text)
        size = len(text)
        del text
        tracemalloc.start()
        try:
            with pytest.raises(DownloadError, match=message):
                unpack(tmp_path / "deu-eng.zip", "pairs", data_set.files, max_bytes=data_set.max_bytes)
            assert tracemalloc.get_traced_memory()[1] < 3 * size
        finally:
            tracemalloc.stop()


def header(kind=tarfile.REGTYPE, contents=b"", name="text.en", **fields):
    """A header of a tar file, followed by its contents in whole blocks."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, fields.get("size", len(contents))
    return info.tobuf(tarfile.GNU_FORMAT) + contents + bytes(-len(contents) % 512)


def pax(*facts):
    """The contents of a header of facts, each shorter than 92 letters: ``24 key=value``, with its own length."""
    return b"".join(f"{len(fact) + 4:02d} {fact}\n".encode() for fact in facts)


EXTENDED = bytearray(header(tarfile.GNUTYPE_SPARSE)) + (b"%011o\0" % 1 * 42).ljust(504, b"\0") + b"\1" + bytes(7)
EXTENDED[482] = 1  # of a sparse file: more of its map follows
EXTENDED[148:156] = b"%06o\0 " % (sum(EXTENDED[:512]) - sum(EXTENDED[148:156]) + 8 * ord(" "))
FACTS = pax(*(f"k{number}=v" for number in range(5000)))
BOMBS = {
    "a long name": (header(tarfile.GNUTYPE_LONGNAME, size=30_000_000), bytes(1 << 20), 30, "got 30000000"),
    "a long list of facts": (header(tarfile.XHDTYPE, size=30_000_000), bytes(1 << 20), 30, "got 30000000"),
    "a header of less than no bytes": (header(tarfile.XHDTYPE, size=-512), bytes(1 << 20), 30, "got -512"),
    "a member of less than no bytes": (header(size=-512), header(), 1, "must unpack to at most"),
    "facts about all members": (header(tarfile.XGLTYPE, FACTS), header(name="x"), 2000, "no global header"),
    "a chain of facts": (b"", header(tarfile.XHDTYPE, FACTS), 200, "bytes of headers"),
    "empty members": (b"", header(name="x"), 50_000, "bytes of headers"),
    "a large member": (header(name="x", size=30_000_000), bytes(1 << 20), 30, "must unpack to at most"),
    "a sparse file, old form": (bytes(EXTENDED[:512]), bytes(EXTENDED[512:]), 20_000, "no sparse file"),
    "a sparse file, new form": (
        header(tarfile.XHDTYPE, pax("GNU.sparse.major=1", "GNU.sparse.minor=0"))
        + header(size=30_000_000)
        + b"9000000\n",
        b"1\n" * 256,
        20_000,
        "no sparse file",
    ),
}
"""Name: the first bytes, those that are repeated then, how often, and the reason why the archive is refused."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_tar_of_which_a_lot_would_be_kept_is_refused_in_small_memory(tmp_path, name):
    first, repeated, times, reason = BOMBS[name]
    with gzip.open(tmp_path / "a.tgz", "wb", compresslevel=1) as packed:
        packed.write(first)
        for _ in range(times):
            packed.write(repeated)
        packed.write(header(contents=b"found\n", name="found"))
    tracemalloc.start()
    try:
        with pytest.raises(DownloadError, match=f"^a.tgz: .*{reason}"):
            unpack(tmp_path / "a.tgz", "tar", [DataFile("text", "", member="found")], max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_segments_without_an_end_are_read_in_bounded_time(tmp_path):
    path = tar(tmp_path / "test.tgz", {"a.sgm": b'<seg id="1">one</seg>' + b"<seg>" * 1_000_000})
    start = time.process_time()
    assert unpack(path, "sgm", [DataFile("a.en", "", member="a.sgm")]) == {"a.en": b"one\n"}
    assert time.process_time() - start < 5.0


def test_the_number_of_a_character_that_is_too_long_is_refused(tmp_path):
    path = tar(tmp_path / "test.tgz", {"a.sgm": b"<seg>&#" + b"1" * 5000 + b";</seg>"})
    with pytest.raises(DownloadError, match="test.tgz: must be an intact archive"):
        unpack(path, "sgm", [DataFile("a.en", "", member="a.sgm")])


def test_talks_lose_their_tags_and_every_23rd_sentence_is_held_out(tmp_path):
    members = {}
    for side in ("en", "de"):
        spoken = "".join(f"{side} {number}\n" for number in range(2, 47))
        tagged = f"<url>http://x</url>\n<title>{side} 0</title>\n<description>{side} 1</description>\n {spoken}<doc>\n"
        members[f"de-en/train.tags.de-en.{side}"] = tagged.encode()
        for test in unpacking.TED_TESTS:
            members[f"de-en/IWSLT14.{test}.de-en.{side}.xml"] = f'<seg id="1"> {side} {test} &amp; </seg>\n'.encode()
    texts = unpack(tar(tmp_path / "de-en.tgz", members), "ted", find("iwslt14").files)
    for side in ("en", "de"):
        assert texts[f"val.{side}"].decode() == f"{side} 22\n{side} 45\n"
        train = [number for number in range(47) if number not in (22, 45)]
        assert texts[f"train.{side}"].decode() == "".join(f"{side} {number}\n" for number in train)
        assert texts[f"test.{side}"].decode() == "".join(f"{side} {test} &\n" for test in unpacking.TED_TESTS)
