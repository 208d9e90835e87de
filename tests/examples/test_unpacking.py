"""Unpacking: the text files in the archives of each data set, and archives that are damaged or hostile."""

import gzip
import io
import shutil
import tarfile
import time
import zipfile

import pytest

from examples.data import DataFile, DataSet, DownloadError, archives, find
from examples.data.archives import split_by_first


def unpack(archive, members, convert="", limit=1 << 33):
    """The contents of the files by name.   members: name -> path in the archive"""
    folder = archive.with_name("unpacked")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files = [DataFile(name, "", member=member) for name, member in members.items()]
    archives.unpack(archive, files, DataSet("", "", "", "", "", (), convert, limit), folder)
    return {name: (folder / name).read_bytes() for name in members}


def tar(path, members, packing="gz"):
    with tarfile.open(path, f"w:{packing}") as bundle:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            bundle.addfile(member, io.BytesIO(content))
    return path


PARTS = {file.name: file.member for file in find("tatoeba_en_de").files}


def test_the_segments_of_wmt_mark_up_become_lines(tmp_path):
    sgm = b'<doc>\n<seg id="1">Standard &amp; Poor\'s  said</seg>\n<seg id="2"> two\nlines </seg>\n</doc>\n'
    path, text = tar(tmp_path / "test.tgz", {"test/a.sgm": sgm}), b"Standard & Poor's said\ntwo lines\n"
    assert unpack(path, {"a.en": "test/a.sgm", "b.en": "test/a.sgm"}, "segments") == {"a.en": text, "b.en": text}
    with pytest.raises(DownloadError, match="must contain test/b.sgm"):
        unpack(path, {"a.en": "test/b.sgm"}, "segments")


def test_a_split_keeps_pairs_aligned_and_each_english_sentence_in_one_part(tmp_path):
    pairs = [(f"English {number // 7}", f"Deutsch {number}") for number in range(600)]
    with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w") as bundle:
        bundle.writestr("deu.txt", "".join(f"{en}\t{de}\tsource\n" for en, de in pairs))
        bundle.writestr("_about.txt", "no table")
    texts = unpack(tmp_path / "deu-eng.zip", PARTS, "pairs")
    parts = {}
    for part in ("train", "val", "test"):
        english, german = (texts[f"{part}.{side}"].decode().split("\n")[:-1] for side in ("en", "de"))
        assert all(pair in pairs for pair in zip(english, german, strict=True))
        parts[part] = set(english)
        assert part == "train" or 30 <= len(english) < 30 + 7  # one pair in twenty, and the rest of a last sentence
    assert sum(texts[f"{part}.en"].count(b"\n") for part in parts) == 600
    assert not parts["train"] & parts["val"] and not parts["train"] & parts["test"] and not parts["val"] & parts["test"]


def test_a_split_does_not_depend_on_the_order_of_the_sentences(rng):
    pairs = [(f"English {number}", f"Deutsch {number}") for number in range(200)]
    shuffled = [pairs[number] for number in rng.permutation(200)]
    assert split_by_first(pairs) == split_by_first(shuffled)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "deu-eng.zip: must contain enough pairs for train, val and test, got 0"),
        (b"".join(b"English %d\tDeutsch\n" % number for number in range(19)), "test, got 19"),
        (b"\t" * 20_000_000, "test, got 1$"),
        (b"a\tb\n" * 2_500_000, "at most 1000000 lines, got 2500000"),
        (bytes(140_000_000), "at most 134217728 bytes"),
    ],
    ids=["nothing", "19 pairs", "tabs", "lines", "bytes"],
)
def test_a_table_too_short_or_too_long_to_be_split_is_refused_in_small_memory(tmp_path, text, message, peak_memory):
    with zipfile.ZipFile(tmp_path / "deu-eng.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("deu.txt", text)
    with pytest.raises(DownloadError, match=message):
        unpack(tmp_path / "deu-eng.zip", PARTS, "pairs", 1 << 27)
    assert peak_memory() < 3 * len(text) + (1 << 22)


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
    with pytest.raises(DownloadError, match=r"deu-eng\.zip: must (be an intact archive|contain deu.txt)"):
        unpack(path, PARTS, "pairs")


def test_members_of_a_tar_are_found_by_path_and_decompressed(tmp_path):
    members = {"un/b.fr": b"deux\n", "x": b"not wanted", "./giga.en.gz": gzip.compress(b"one\n")}
    path, wanted = tar(tmp_path / "a.tar", members, ""), {"giga.en": "giga.en.gz", "un.fr": "un/b.fr"}
    assert unpack(path, wanted) == {"giga.en": b"one\n", "un.fr": b"deux\n"}
    with pytest.raises(DownloadError, match="must contain un/c.fr, but it does not"):
        unpack(path, wanted | {"c": "un/c.fr"})


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE])
def test_a_link_a_folder_or_a_sparse_file_as_a_member_is_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as bundle:
        member = tarfile.TarInfo("text.en")
        member.type, member.linkname = kind, "../../etc/passwd"
        bundle.addfile(member)
    with pytest.raises(DownloadError, match="text.en must be a file, got a folder, a link or a sparse file"):
        unpack(tmp_path / "a.tgz", {"text.en": "text.en"})


def test_a_decompression_bomb_is_refused_before_it_fills_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "READ_BYTES", 100)
    bomb = gzip.compress(bytes(1001))
    (tmp_path / "big.gz").write_bytes(bomb)
    for path, member in ((tmp_path / "big.gz", ""), (tar(tmp_path / "a.tgz", {"big.gz": bomb}), "big.gz")):
        with pytest.raises(DownloadError, match="at most 1000 bytes, got more$"):
            unpack(path, {"big": member}, limit=1000)
        assert (tmp_path / "unpacked" / "big").stat().st_size == 1000


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
NEW_SPARSE = header(tarfile.XHDTYPE, pax("GNU.sparse.major=1", "GNU.sparse.minor=0")) + header(size=30_000_000)
BOMBS = {
    "a long name": (header(tarfile.GNUTYPE_LONGNAME, size=30_000_000), bytes(1 << 20), 30),
    "a long list of facts": (header(tarfile.XHDTYPE, size=30_000_000), bytes(1 << 20), 30),
    "a header of less than no bytes": (header(tarfile.XHDTYPE, size=-512), bytes(1 << 20), 30),
    "a member of less than no bytes": (header(size=-512), header(), 1),
    "facts about all members": (header(tarfile.XGLTYPE, FACTS), header(name="x"), 300),
    "a chain of facts": (b"", header(tarfile.XHDTYPE, FACTS), 13),
    "empty members": (b"", header(name="x"), 3_000),
    "a sparse file, old form": (bytes(EXTENDED[:512]), bytes(EXTENDED[512:]), 1_300),
    "a sparse file, new form": (NEW_SPARSE + b"9000000\n", b"1\n" * 256, 1_300),
}
"""Name: the first bytes, those that are repeated then, and how often."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_tar_of_which_a_lot_would_be_kept_is_refused_in_small_memory(tmp_path, name, monkeypatch, peak_memory):
    monkeypatch.setattr(archives, "MAX_HEADERS", 1 << 17)
    first, repeated, times = BOMBS[name]
    with gzip.open(tmp_path / "a.tgz", "wb", compresslevel=1) as packed:
        packed.write(first)
        for _ in range(times):
            packed.write(repeated)
        packed.write(header(contents=b"found\n", name="found"))
    with pytest.raises(DownloadError, match="^a.tgz: must (have at most 131072 bytes of headers|contain found)"):
        unpack(tmp_path / "a.tgz", {"text": "found"}, limit=1 << 20)
    assert peak_memory() < 4_000_000


def test_segments_without_an_end_are_read_in_bounded_time(tmp_path):
    path = tar(tmp_path / "test.tgz", {"a.sgm": b'<seg id="1">one</seg>' + b"<seg>" * 1_000_000})
    start = time.process_time()
    assert unpack(path, {"a.en": "a.sgm"}, "segments") == {"a.en": b"one\n"}
    assert time.process_time() - start < 5.0


def test_the_number_of_a_character_that_is_too_long_is_refused(tmp_path):
    path = tar(tmp_path / "test.tgz", {"a.sgm": b"<seg>&#" + b"1" * 5000 + b";</seg>"})
    with pytest.raises(DownloadError, match="test.tgz: must be an intact archive"):
        unpack(path, {"a.en": "a.sgm"}, "segments")
