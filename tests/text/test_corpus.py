"""Reading text: what a line is, and the errors for files that are damaged or misaligned."""

import gzip
import lzma
import os
import re
import threading

import pytest
from systems import needs

from minitransformer.config import Config
from minitransformer.errors import ConfigError, DataError
from minitransformer.text import Tokenizer, corpus, encode_parallel, read_lines, read_parallel
from minitransformer.text.corpus import read_text, stream_parallel
from minitransformer.training import read_metrics


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Männer\n\n sit \n", ["Männer", "", " sit "]),
        ("a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\rh\nend\n", ["a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\rh", "end"]),
        ("a\nb", ["a", "b"]),
        ("a\nb\n\n", ["a", "b", ""]),
        ("\ufeffa\r\nb\r\r\n\r\n", ["a", "b\r", ""]),
        ("\ufeff\r\n\ufeff is kept here", ["", "\ufeff is kept here"]),
    ],
    ids=["plain", "other separators", "no newline at the end", "empty last line", "from Windows", "two marks"],
)
def test_newlines_separate_lines_and_marks_of_the_format_are_removed(tmp_path, text, lines, suffix):
    assert read_lines(write(tmp_path / f"text{suffix}", text)) == lines


@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz"])
@pytest.mark.parametrize("read", [read_lines, read_text])
def test_invalid_utf8_is_refused_with_the_line_number(tmp_path, name, read):
    path = write(tmp_path / name, "Männer\nzwei\n".encode() + b"M\xe4nner\n")
    with pytest.raises(DataError) as caught:
        read(path)
    remedy = "convert the file by iconv, whose option -c drops what cannot be converted"
    assert str(caught.value) == f"{path}:3: must be UTF-8, got byte 0xe4 at byte 2 of the line; {remedy}"


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match="none.en: cannot be read: No such file"):
        read_lines(tmp_path / "none.en")
    with pytest.raises(DataError, match="cannot be read: (Is a directory|Permission denied)"):
        read_lines(tmp_path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_damaged_compressed_file_is_refused_in_one_line(tmp_path, rng, suffix):
    path = write(tmp_path / f"text{suffix}", rng.integers(97, 122, 5000).astype("uint8").tobytes() + b"\n")
    whole = path.read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in (0, 10, 50, len(whole) // 2)]
    for data in [b"no archive\n", whole[:-100], whole[:5], *flipped]:
        path.write_bytes(data)
        with pytest.raises(DataError) as caught:
            read_lines(path)
        assert str(caught.value).startswith(f"{path}: must be an intact {suffix} file, got a damaged one: ")
        assert "\n" not in str(caught.value)


def test_files_are_read_together_and_a_missing_line_is_refused_with_both_counts(tmp_path):
    src, tgt = write(tmp_path / "a.en", "one\ntwo\n"), write(tmp_path / "a.de.xz", "eins\nzwei")
    assert read_parallel(src, tgt) == (["one", "two"], ["eins", "zwei"])
    assert list(stream_parallel(src, tgt)) == [("one", "eins"), ("two", "zwei")]
    for text, count in (("eins\n", 1), ("eins\nzwei\ndrei\n", 3)):
        other, read = write(tmp_path / "b.de", text), []
        message = f"{src} and {other}: must have the same number of lines, got 2 and {count}"
        with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
            read_parallel(src, other)
        with pytest.raises(DataError, match=f"got 2 and {count}$"):
            read.extend(stream_parallel(src, other))
        assert next(stream_parallel(src, other)) == ("one", "eins")


def test_pairs_that_are_empty_or_too_long_are_left_out_and_counted():
    tokenizer = Tokenizer.train(["x y z"], 100, mode="words")
    src = ["x", "", "x y", "x y z", "z", " "]
    tgt = ["y", "y", "   ", "z", "x y z", ""]
    pairs = encode_parallel(tokenizer, src, tgt, max_length=3)
    assert (pairs.src, pairs.tgt) == (tokenizer.encode_lines(["x"]), tokenizer.encode_lines(["y"]))
    assert (pairs.n_empty, pairs.n_long) == (3, 2)
    assert len(encode_parallel(tokenizer, src, tgt, max_length=4).src) == 3
    assert encode_parallel(tokenizer, ["x" + " " * 99 + "y"], ["y"], max_length=3).rows == [0]  # spaces are no tokens
    longest = ["abcdefgh"]  # one token, and none has more characters
    assert encode_parallel(Tokenizer.train(longest * 2, 300), longest, longest, max_length=2).rows == [0]


def test_text_without_any_usable_pair_is_refused():
    tokenizer = Tokenizer.train(["x y"], 100, mode="words")
    with pytest.raises(DataError, match="got none of 2 .1 with an empty side, 1 longer than 1 tokens"):
        encode_parallel(tokenizer, ["x", ""], ["y", "y"], max_length=1)


@needs("named pipes")
def test_a_pipe_with_a_missing_line_is_read_once(tmp_path):
    (tmp_path / "a").write_text("1\n2\n", encoding="utf-8")
    os.mkfifo(tmp_path / "b")
    writer = threading.Thread(target=(tmp_path / "b").write_text, args=("eins\n",), daemon=True)
    writer.start()
    with pytest.raises(DataError, match="must have the same number of lines, got 2 and 1"):
        list(stream_parallel(tmp_path / "a", tmp_path / "b"))
    writer.join(timeout=60)
    assert not writer.is_alive()


@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz"])
def test_a_line_that_does_not_end_is_refused_by_its_number(tmp_path, name, peak_memory):
    path = write(tmp_path / name, b"one\ntwo\n" + bytes(25_000_000))
    peak_memory()
    with pytest.raises(DataError, match=f"{name}:3: a line must have at most {corpus.MAX_LINE} bytes, got more"):
        read_lines(path)
    assert peak_memory() < 3 * corpus.MAX_LINE


def test_a_line_is_too_long_with_its_end(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(corpus, "MAX_LINE", 50)
    lines = [b"x" * size for size in rng.integers(0, 50, 9)]  # with line ends at most 50 bytes
    path = write(tmp_path / "text", b"\n".join([*lines, b"y" * 49, b"z"]))
    assert read_lines(path) == [*(line.decode() for line in lines), "y" * 49, "z"]
    write(path, b"\n".join([*lines, b"y" * 50, b"z"]))
    with pytest.raises(DataError, match=":10: a line must have at most 50 bytes, got more"):
        read_lines(path)


def test_a_text_read_as_one_string_has_a_longest_length(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_TEXT", 50)
    assert len(read_text(write(tmp_path / "a.gz", "line\n" * 10))) == 50
    with pytest.raises(DataError, match="must have at most 50 characters of text, got more"):
        read_text(write(tmp_path / "a.gz", "line\n" * 10 + "x"))


@needs("/dev/zero")
def test_a_device_that_never_ends_is_refused_by_every_reader():
    """Each stops after the bytes that a file of its kind may have."""
    for read, error in ((read_text, DataError), (read_lines, DataError), (read_metrics, DataError)):
        with pytest.raises(error, match="/dev/zero"):
            read("/dev/zero")
    with pytest.raises(ConfigError, match="/dev/zero: cannot be read: File too large"):
        Config.load("/dev/zero")
