"""Inputs of ``data get``: archives of every packing, with damaged contents and hostile members."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path
from random import Random

from examples.data.download import copy_from
from examples.data.registry import DataFile, DataSet

from .mutations import NUMBERS, damaged, damaged_text
from .worker import Reader

TEXT = "Zwei Männer .\nTwo men &amp; a dog .\r\n\n&#8217;s \u2028 x\n".encode()
SGM = b'<doc id="1">\n<seg id="1">Standard &amp; Poor&#8217;s  said</seg>\n<seg id="2"> two\nlines </seg>\n</doc>\n'
TAGGED = b"<url>x</url>\n<title>A talk</title>\n" + b"".join(b"Line %d .\n" % number for number in range(25))
TABLE = "".join(f"English {number // 2}\tDeutsch {number}\tCC-BY\n" for number in range(60)).encode()
TALKS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

WHOLE = {
    "plain": {"": TEXT},
    "gz": {"": TEXT},
    "tar": {"data/train.en": TEXT, "data/train.de.gz": gzip.compress(TEXT, 1, mtime=0)},
    "sgm": {"test/src.sgm": SGM, "test/ref.sgm": SGM},
    "ted": {"de-en/train.tags.de-en.en": TAGGED} | {f"de-en/IWSLT14.{talk}.de-en.en.xml": SGM for talk in TALKS},
    "pairs": {"_about.txt": b"about", "deu.txt": TABLE},
}
"""Packing: the members of a valid archive."""
FILES = {
    "plain": {"train.en": ""},
    "gz": {"train.en": ""},
    "tar": {"train.en": "data/train.en", "train.de": "data/train.de.gz"},
    "sgm": {"test.en": "test/src.sgm", "test.de": "test/ref.sgm"},
    "ted": {"train.en": "", "val.en": "", "test.en": ""},
    "pairs": {f"{part}.{side}": "" for part in ("train", "val", "test") for side in ("en", "de")},
}
"""Packing: the files to be unpacked, and the member of each."""
ADDRESS = {"plain": "train.en", "gz": "train.en.gz", "pairs": "deu-eng.zip"}
SETS = {
    packing: DataSet(
        packing,
        "",
        "",
        "",
        "",
        packing,
        tuple(DataFile(n, ADDRESS.get(packing, "x.tgz"), None, m) for n, m in files.items()),
    )
    for packing, files in FILES.items()
}
KINDS = (
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE,
    b"S",
    b"?",
)
PAX = (
    "path",
    "size",
    "linkpath",
    "mtime",
    "uid",
    "GNU.sparse.map",
    "GNU.sparse.major",
    "GNU.sparse.size",
    "hdrcharset",
)
FIELDS = ((0, 100), (100, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155), (386, 12), (483, 12))
"""Offset and length of fields of a tar header; the last ones are those of sparse files."""
ESCAPED = "escaped"


class Archives(Reader):
    """Only the files of the data set are written, in its folder, whatever the archive and its members are called."""

    name = "archives"

    def write(self, rng: Random, folder: Path) -> None:
        packing = rng.choice(list(WHOLE))
        members = dict(WHOLE[packing])
        if rng.random() < 0.4:
            name = rng.choice(list(members))
            content = gzip.decompress(members[name]) if name.endswith(".gz") else members[name]
            content = rng.choice((damaged, damaged_text))(rng, content, rng.choice((TEXT, SGM, TAGGED)))
            members[name] = gzip.compress(content, 1) if name.endswith(".gz") else content
        data = PACKERS[packing](rng, members, str(folder.resolve()))
        if rng.random() < 0.3:
            data = damaged(rng, data, TEXT)
        source = folder / "from"
        source.mkdir()
        (source / SETS[packing].files[0].address).write_bytes(data)
        if rng.random() < 0.1:
            sums = b"".join(b"%064x  %s\n" % (number, name.encode()) for number, name in enumerate(FILES[packing]))
            (folder / "to" / packing).mkdir(parents=True)
            (folder / "to" / packing / "SHA256SUMS").write_bytes(damaged_text(rng, sums))
        (folder / "packing").write_text(packing)

    def read(self, folder: Path) -> None:
        packing = (folder / "packing").read_text()
        before = _found(folder)
        try:
            copy_from(folder / "from", SETS[packing], folder / "to")
        finally:
            new, target = _found(folder).keys() - before.keys(), folder / "to" / packing
            allowed = {target / name for name in (*FILES[packing], "SHA256SUMS")}
            assert new <= allowed, f"files that must not be there: {sorted(new - allowed)}"
            assert all(path.is_file() and not path.is_symlink() for path in new)
            assert all(path.read_bytes() == content for path, content in before.items() if path.name != "SHA256SUMS")
            assert not any((parent / ESCAPED).exists() for parent in (folder, *folder.resolve().parents))
        assert {path.name for path in new} >= set(FILES[packing])


def _found(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if not path.is_dir()}


def hostile(rng: Random, name: str, here: str) -> str:
    """A name that points outside the folder, or one that is nearly correct."""
    outside = [f"../{ESCAPED}", f"{'../' * 8}{here[1:]}/{ESCAPED}", f"{here}/{ESCAPED}", f"{name}/../../{ESCAPED}"]
    windows = [f"C:\\{ESCAPED}", f"..\\{ESCAPED}", "CON", f"{name}:x", f"{name}."]
    similar = [f"/{name}", f"//{name}", f"./{name}", f"././{name}", f"../{name}", f"{name} ", f"{name}\n", name.upper()]
    odd = ["", ".", "\udcff", f"{name}\0.txt", "\x1b[31m.txt", "x.txt", "a" * 300, "a/" * 200 + "x"]
    return rng.choice([*outside, *windows, *similar, *odd])


def _gzipped(data: bytes) -> bytes:
    return gzip.compress(data, 1)


def _plain(rng: Random, members: dict[str, bytes], here: str) -> bytes:
    return members[""]


def _gz(rng: Random, members: dict[str, bytes], here: str) -> bytes:
    data = b"".join(gzip.compress(members[""], 1) for _ in range(rng.choice((1, 1, 1, 2, 20))))
    return data + rng.choice((b"", b"", b"\0" * 100, b"rest"))


def _tar(rng: Random, members: dict[str, bytes], here: str) -> bytes:
    file, extras = io.BytesIO(), rng.random() < 0.6
    form = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=file, mode="w", format=form, encoding="utf-8") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if extras and rng.random() < 0.5:
                _make_hostile(rng, member, here)
            member.size = len(content) if member.type == tarfile.REGTYPE else 0
            try:
                archive.addfile(member, io.BytesIO(content))
            except (ValueError, UnicodeError):  # this header format cannot store the name
                continue
    data = file.getvalue()
    if rng.random() < 0.4:
        data = _with_field(rng, data)
    if rng.random() < 0.005:
        kind = rng.choice((tarfile.XGLTYPE, tarfile.XHDTYPE, tarfile.REGTYPE))
        return rng.choice((_gzipped, bz2.compress))(many_headers(kind, rng.choice((1, 200))) + data)
    return rng.choice((_gzipped, _gzipped, bytes, bz2.compress, lzma.compress))(data)


def many_headers(kind: bytes, times: int) -> bytes:
    """Headers of 5,000 facts, and 20,000 empty members: 60 KB when compressed, 2 GB if all facts are kept of each."""
    head = tarfile.TarInfo("x")
    facts = b"" if kind == tarfile.REGTYPE else b"".join(b"11 k%04d=v\n" % number for number in range(5000))
    head.type, head.size = kind, len(facts)
    return (head.tobuf() + facts + bytes(-len(facts) % 512)) * times + tarfile.TarInfo("x").tobuf() * 20_000


def _make_hostile(rng: Random, member: tarfile.TarInfo, here: str) -> None:
    change = rng.randrange(4)
    if change == 0:
        member.name = hostile(rng, member.name, here)
    if change in (1, 2):
        member.type = rng.choice(KINDS)
        member.linkname = rng.choice((f"{here}/{ESCAPED}", f"../{ESCAPED}", "/dev/zero", member.name, "/etc/passwd"))
    if change in (0, 3):
        values = [
            *(number.decode() for number in NUMBERS if len(number) < 100),
            "1,2,3",
            "x",
            hostile(rng, member.name, here),
        ]
        member.pax_headers = {rng.choice(PAX): rng.choice(values) for _ in range(2)}


def _with_field(rng: Random, data: bytes) -> bytes:
    """A tar file with another value in one field of a header, and a correct header checksum."""
    changed = bytearray(data)
    starts = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    if not starts:
        return data
    start = rng.choice(starts)
    offset, length = rng.choice(FIELDS)
    values = [
        b"\xff" * 12,
        b"\x80" + b"\xff" * 11,
        b"7" * 11,
        b"-1",
        b"0",
        b"1",
        b"x",
        b"9" * 12,
        b"\0" * 12,
        rng.randbytes(12),
    ]
    changed[start + offset : start + offset + length] = rng.choice(values)[:length].ljust(length, b"\0")
    changed[start + 148 : start + 156] = b" " * 8
    changed[start + 148 : start + 156] = b"%06o\0 " % sum(changed[start : start + 512])
    return bytes(changed)


def _zip(rng: Random, members: dict[str, bytes], here: str) -> bytes:
    file = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            if rng.random() < 0.2:
                name = hostile(rng, name, here).encode("utf-8", "replace").decode()
            for _ in range(rng.choice((1, 1, 1, 1, 2))):
                archive.writestr(zipfile.ZipInfo(name), content, packing)
    return file.getvalue()


PACKERS = {"plain": _plain, "gz": _gz, "tar": _tar, "sgm": _tar, "ted": _tar, "pairs": _zip}
