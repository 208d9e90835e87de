"""Files that exposed a defect of a reader, as recipes: the reader, and a function that writes the file."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .fuzz.archives import FILES, SETS, many_headers
from .fuzz.checkpoints import NAME, WITHOUT_TABLE
from .fuzz.npz import npy_header
from .fuzz.worker import Reader

Recipe = Callable[[Reader, Path], object]
"""Writes the file to an empty folder; ``reader.valid`` has valid files."""


def archive(packing: str, data: bytes, folder: Path) -> None:
    """``data`` as the archive of a data set of this packing."""
    (folder / "packing").write_text(packing)
    (folder / "from").mkdir()
    (folder / "from" / SETS[packing].files[0].address).write_bytes(data)


def tar(packing: str, folder: Path, content: bytes, before: bytes = b"", **facts: object) -> None:
    """A .tgz whose members all have this content, and these values in their headers; ``before`` stands first."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as bundle:
        for name in FILES[packing].values():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for fact, value in facts.items():
                setattr(member, fact, value)
            bundle.addfile(member, io.BytesIO(content))
    archive(packing, gzip.compress(before + file.getvalue(), 1), folder)


def after_headers(kind: bytes, times: int) -> Recipe:
    """An archive whose members come after `many_headers`."""
    return lambda _, folder: tar("sgm", folder, b"<seg>x</seg>", many_headers(kind, times))


def answer(head: str, folder: Path) -> None:
    (folder / "answer").write_bytes(head.replace("\n", "\r\n").encode() + b"\r\n\r\n0123456789")


def checkpoint(reader: Reader, folder: Path, change: Callable[[dict[str, bytes]], object], number: int = 0) -> None:
    """Valid checkpoint ``number`` after ``change`` of its entries, with correct checksums."""
    with zipfile.ZipFile(io.BytesIO(reader.valid[number])) as stored:
        entries = {name: stored.read(name) for name in stored.namelist()}
    change(entries)
    (folder / "checkpoints").mkdir()
    with zipfile.ZipFile(folder / "checkpoints" / NAME, "w") as stored:
        for name, content in entries.items():
            stored.writestr(name, content)


def with_config(section: str, number: int = 0, **values: object) -> Recipe:
    """Checkpoint ``number`` with other values in the config of its header."""

    def change(entries: dict[str, bytes]) -> None:
        header = json.loads(bytes(np.load(io.BytesIO(entries["header.npy"]))))
        header["config"][section] |= values
        file = io.BytesIO()
        np.save(file, np.frombuffer(json.dumps(header).encode(), np.uint8))
        entries["header.npy"] = file.getvalue()

    return lambda reader, folder: checkpoint(reader, folder, change, number)


def fed(write: Recipe, text: str) -> Recipe:
    """A checkpoint that is to translate this text."""

    def write_both(reader: Reader, folder: Path) -> None:
        write(reader, folder)
        (folder / "input.txt").write_text(text)

    return write_both


def with_entry(name: str, content: bytes) -> Recipe:
    return lambda reader, folder: checkpoint(reader, folder, lambda entries: entries.update({name: content}))


def with_bomb(name: str) -> Recipe:
    """A checkpoint with an entry of 200 MB that takes 200 KB in the file."""

    def write(reader: Reader, folder: Path) -> None:
        checkpoint(reader, folder, lambda entries: entries.pop(name, None))
        path = folder / "checkpoints" / NAME
        with (
            zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as stored,
            stored.open(name, "w") as entry,
        ):
            entry.write(npy_header("<f4", False, (50 << 20,)))
            for _ in range(50):
                entry.write(bytes(4 << 20))

    return write


def pairs(reader: Reader, folder: Path, files: dict[str, bytes], **header: object) -> None:
    """A folder of binarised data with other files and other values in its header."""
    (folder / "ids").mkdir()
    stated = json.loads(reader.valid["header.json"]) | header
    for name, content in (reader.valid | {"header.json": json.dumps(stated).encode()} | files).items():
        (folder / "ids" / name).write_bytes(content)


def with_ends(*changes: tuple[int, int]) -> Recipe:
    """Binarised data with other offsets of some sentences."""

    def write(reader: Reader, folder: Path) -> None:
        ends = np.frombuffer(reader.valid["src.ends"], "<u8").copy()
        for row, end in changes:
            ends[row] = end
        pairs(reader, folder, {"src.ends": ends.tobytes()})

    return write


def file(name: str, content: bytes) -> Recipe:
    return lambda reader, folder: (folder / name).write_bytes(content)


def output(words: bytes, linear: bytes) -> Recipe:
    """Sentences, and what a parser made of them."""
    return lambda _, folder: ((folder / "words").write_bytes(words), (folder / "linear").write_bytes(linear))


SPARSE_BUT_NOT = {"GNU.sparse.map": "x", "GNU.sparse.size": "10", "GNU.sparse.numblocks": "1"}
OK, FOUND = "HTTP/1.1 200 OK", "HTTP/1.1 302 Found"
NO_IDS = {"src.ids": b"", "tgt.ids": b"", "src.ends": bytes(8), "tgt.ends": bytes(8)}
MANY_WORDS = gzip.compress(b"(S" + b"(N a)" * 10**6 + b")")

CORPUS: dict[str, tuple[str, Recipe]] = {
    # archives and answers
    "a map of a sparse tar member that is not of numbers": (
        "archives",
        lambda _, folder: tar("tar", folder, b"text\n", pax_headers=SPARSE_BUT_NOT),
    ),
    "fifty thousand <seg> that are never closed": ("archives", lambda _, folder: tar("sgm", folder, b"<seg>" * 50000)),
    "a character reference of 5,000 digits": (
        "archives",
        lambda _, folder: tar("sgm", folder, b"<seg>&#" + b"9" * 5000 + b";</seg>"),
    ),
    "a recorded sum of 5,000 digits": (
        "archives",
        lambda _, folder: (
            archive("plain", b"text\n", folder),
            (folder / "to" / "plain").mkdir(parents=True),
            (folder / "to" / "plain" / "SHA256SUMS").write_bytes(b"9" * 5000 + b"  train.en\n"),
        ),
    ),
    "facts about 20,000 members": ("archives", after_headers(tarfile.XGLTYPE, 1)),
    "20,000 members before those that are wanted": ("archives", after_headers(tarfile.REGTYPE, 1)),
    "a chain of 200 headers": ("archives", after_headers(tarfile.XHDTYPE, 200)),
    "a link in place of a member": (
        "archives",
        lambda _, folder: tar("tar", folder, b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    ),
    "a Content-Length that is not a number": ("answers", lambda _, folder: answer(f"{OK}\nContent-Length: 1.", folder)),
    "a Content-Length beyond 2^63": ("answers", lambda _, folder: answer(f"{OK}\nContent-Length: {2**64}", folder)),
    "a range that cannot be sent although none was asked for": (
        "answers",
        lambda _, folder: answer("HTTP/1.1 416 x\nContent-Range: bytes */0", folder),
    ),
    "a Content-Length of 1,000 digits": (
        "answers",
        lambda _, folder: answer(f"{OK}\nContent-Length: {10**999}", folder),
    ),
    "a redirection to no address": ("answers", lambda _, folder: answer(f"{FOUND}\nLocation: http://[", folder)),
    "a reason phrase of control characters": ("answers", lambda _, folder: answer("HTTP/1.1 404 \x1b[31m\x07", folder)),
    # configs and settings
    "a dotted key of 50,000 parts": ("toml", file("run.toml", b"a." * 50000 + b"a = 1\n")),
    "a hundred lines of dotted keys": (
        "toml",
        file("run.toml", b"".join(b"a%d.%s = 1\n" % (n, b"a." * 2000 + b"a") for n in range(100))),
    ),
    "a config without end": ("toml", lambda _, folder: (folder / "run.toml").symlink_to("/dev/zero")),
    "escape sequences in the name of a section": ("settings", file("arguments", b"\x1b[31mmodel.x=1")),
    # text, merges and vocabularies
    "a line of 60,000 combining marks": (
        "text",
        lambda _, folder: [
            (folder / f"{side}.txt").write_text("a" + "\u0301\u0316" * 30000 + "\n") for side in ("src", "tgt")
        ],
    ),
    # trees
    "a tree of a million words in a small file": ("trees", file("trees.mrg.gz", MANY_WORDS)),
    "a word that is a byte-order mark": ("trees", file("trees.mrg", "(S (NN \ufeff) (NN a))".encode())),
    "a token of a parser that holds two brackets": ("trees", output(b"a b\n", b"(NP(NP XX XX)NP\n")),
    "a tab between the words of a sentence": ("trees", output(b"a\tb\n", b"(S XX )S\n")),
    # checkpoints
    "a model far larger than its file": ("checkpoint", with_config("model", d_model=30000)),
    "a model of two thousand million layers": ("checkpoint", with_config("model", n_layers=2**31 - 1)),
    "an array of 2^40 elements in a small file": (
        "checkpoint",
        with_entry("parameters.npy", npy_header("<f4", False, (2**40,))),
    ),
    "paths in a checkpoint that lead elsewhere": (
        "checkpoint",
        with_config("data", tokenizer="/etc/passwd", train_src="../../x", valid_tgt="C:\\x"),
    ),
    "a checkpoint without a limit of the input length": (
        "checkpoint",
        fed(with_config("translation", WITHOUT_TABLE, max_input_length=2**31 - 1), "a " * 16_000),
    ),
    "a checkpoint without a limit of the batch size": (
        "checkpoint",
        with_config("translation", batch_tokens=2**31 - 1),
    ),
    "a checkpoint that asks for a search of hours": (
        "checkpoint",
        with_config("translation", beam_size=1000, max_extra=100_000),
    ),
    "a foreign entry of 200 MB in a small file": ("checkpoint", with_bomb("junk.npy")),
    "an entry of 200 MB in a small file": ("checkpoint", with_bomb("parameters.npy")),
    # binarised data
    "a sentence that ends before it begins": ("binarised", with_ends((9, 2**31 + 5))),
    "an empty sentence": ("binarised", with_ends((3, 6), (4, 6))),
    "no ids at all": (
        "binarised",
        lambda reader, folder: pairs(reader, folder, NO_IDS, pairs=1, n_src_tokens=0, n_tgt_tokens=0),
    ),
    "target ids that are all padding": (
        "binarised",
        lambda reader, folder: pairs(reader, folder, {"tgt.ids": bytes(len(reader.valid["tgt.ids"]))}),
    ),
    "counts below zero": ("binarised", lambda reader, folder: pairs(reader, folder, {}, n_empty=10**30, n_long=-5)),
}
"""Defect: (name of the reader, recipe). Each file must be refused in one line, within the limits."""

HARMLESS = {
    "fifty thousand <seg> that are never closed",  # there is no sentence
    "a Content-Length that is not a number",  # the size is unknown
    "paths in a checkpoint that lead elsewhere",  # they are not followed
    "a line of 60,000 combining marks",  # they are cut
    "a token of a parser that holds two brackets",  # each of them begins a token
    "a tab between the words of a sentence",  # it separates them
}
"""Files that must be accepted instead."""
