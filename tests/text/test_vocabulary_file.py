"""Vocabulary files: what was saved is loaded unchanged, and a damaged file is refused with the line number."""

import random

import pytest
from odd_text import BY_BYTES, BY_WORDS, TEXT, random_line

from minitransformer.errors import DataError
from minitransformer.text import Tokenizer
from minitransformer.text.vocabulary_file import read_symbol, show_symbol


@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_a_saved_vocabulary_is_loaded_unchanged(tmp_path, mode):
    odd = ["a\u2028b\u0085 \\x41 ␣ \\ \x1f\x7f é\u0301 😀\u00a0한 \ufeff" * 2] * 2
    tokenizer = Tokenizer.train(TEXT * 2 + odd, 500, mode=mode)
    tokenizer.save(tmp_path / "vocabulary.bpe")
    loaded = Tokenizer.load(tmp_path / "vocabulary.bpe")
    assert (loaded.mode, loaded.base, loaded.merges) == (tokenizer.mode, tokenizer.base, tokenizer.merges)
    assert loaded.encode_lines(TEXT + odd) == tokenizer.encode_lines(TEXT + odd)
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.bpe"]


def test_every_symbol_is_shown_without_spaces_and_read_back():
    rng = random.Random(3)
    lines = filter(None, (random_line(rng) for _ in range(300)))
    for symbol in [chr(byte) for byte in range(256)] + [line.encode().decode("latin-1") for line in lines]:
        shown = show_symbol(symbol, "bytes")
        assert shown.isprintable() and " " not in shown
        assert read_symbol(shown, "bytes") == symbol


def damaged(text, number, line):
    """``text`` with line ``number`` (from 1) replaced, or removed if ``line`` is None."""
    lines = text.split("\n")
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (1, "#version: 0.2", ":1: the line must begin with '#minitransformer-bpe version'"),
        (1, "#minitransformer-bpe version 2", ":1: version must be 1, got '2'"),
        (2, "mode letters", ":2: mode must be bytes or words"),
        (3, "base -1", ":3: base must be an integer below 10^9, got '-1'"),
        (3, "base 3", ":7: the line must begin with 'merges', got 'b</w>'"),
        (5, "a", ":5: a base symbol must be listed once, got 'a' again"),
        (8, "merges many", ":8: merges must be an integer"),
        (8, "merges ²", ":8: merges must be an integer"),
        (8, "merges " + "1" * 5000, f":8: merges must be an integer below 10^9, got '{'1' * 60}"),
        (8, "merges 3", ":11: symbols must be readable"),
        (8, "merges 1", ":10: the file must end with a newline after the last merge, got 'a ab</w>' after it"),
        (9, "a c</w>", ":9: a merge must join two known symbols"),
        (9, "c b</w>", ":9: a merge must join two known symbols"),
        (9, "a", ":9: the line must contain 2 symbols, got 'a'"),
        (9, "a  b</w>", ":9: symbols must be readable"),
        (9, "a \\x4", ":9: symbols must be readable"),
        (9, "a \\xff", ":9: symbols must be readable"),
        (9, None, ":9: a merge must join two known symbols"),
        (10, "a b</w>", ":10: a merge must join two known symbols for the first time"),
        (11, "\n", ":11: the file must end with a newline after the last merge"),
        (11, None, ":10: another line must follow, got the end of the file"),
    ],
)
def test_a_damaged_vocabulary_is_refused_with_the_line_number(number, line, message):
    text = Tokenizer.train(["aab aab"], 100, mode="words").dumps()
    assert text.split("\n")[8:] == ["a b</w>", "a ab</w>", ""]
    with pytest.raises(DataError) as caught:
        Tokenizer.loads(damaged(text, number, line), where="my.bpe")
    assert f"my.bpe{message}" in str(caught.value) and "\n" not in str(caught.value)


def test_a_truncated_vocabulary_is_refused():
    for text in (BY_BYTES.dumps(), BY_WORDS.dumps()):
        for end in random.Random(4).sample(range(len(text)), 200):
            with pytest.raises(DataError):
                Tokenizer.loads(text[:end])


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(DataError, match="none.bpe: cannot be read: No such file"):
        Tokenizer.load(tmp_path / "none.bpe")
    with pytest.raises(DataError, match="cannot be written: No such file"):
        BY_BYTES.save(tmp_path / "no" / "folder.bpe")
    (tmp_path / "binary.bpe").write_bytes(b"#mini\n\xff\xfe")
    with pytest.raises(DataError, match="binary.bpe:2: must be UTF-8, got byte 0xff"):
        Tokenizer.load(tmp_path / "binary.bpe")
