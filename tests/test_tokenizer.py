"""The tokenizer: nothing is lost, ids stand where they must, files come back or say what is wrong with them."""

import random

import numpy as np
import pytest

from minitransformer.config import BOS, EOS, PAD, UNK
from minitransformer.errors import DataError
from minitransformer.text import Tokenizer, read_lines
from minitransformer.text.spelling import ByteSpelling
from minitransformer.text.vocabulary_file import read_symbol, show_symbol

TEXT = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche .",
    "Two young, White males are outside near many bushes.",
    "  The  bushes\tare near,  the men aren't; 12 + 345 = 357 … \u2028 한국어 😀 \x00 end ",
    "",
]


def random_line(chooser):
    """Characters from everywhere: ASCII, spaces of all kinds, every plane, but no halves of surrogate pairs."""
    pools = ["ab ", " \t\u00a0\u0085\u2028\u3000\r\n", [chr(code) for code in range(0x300)], None]
    characters = []
    for _ in range(chooser.randrange(60)):
        pool = chooser.choice(pools)
        code = chooser.choice([chooser.randrange(0xD800), chooser.randrange(0xE000, 0x110000)])
        characters.append(chooser.choice(pool) if pool else chr(code))
    return "".join(characters)


@pytest.fixture(scope="module")
def by_bytes():
    return Tokenizer.train(TEXT * 2, 330)


@pytest.fixture(scope="module")
def by_words():
    return Tokenizer.train(TEXT[:2] * 2, 130, mode="words")


# Bytes: lossless


def test_bytes_give_back_any_line_exactly(by_bytes):
    chooser = random.Random(1)
    for line in TEXT + [random_line(chooser) for _ in range(500)]:
        ids = by_bytes.encode(line)
        assert by_bytes.decode(ids) == line
        assert all(4 <= number < by_bytes.vocab_size for number in ids)
        assert by_bytes.unsegment(by_bytes.segment(line)) == line


def test_words_of_the_pattern_join_to_the_line_they_came_from():
    chooser = random.Random(2)
    for line in TEXT + ["a" * 1000 + " " * 1000 + "." * 1000] + [random_line(chooser) for _ in range(500)]:
        words = ByteSpelling.split(line)
        assert "".join(words) == line
        assert all(0 < len(word) <= 65 for word in words)


def test_a_word_takes_the_one_space_before_it():
    assert ByteSpelling.split("two  men, 12a") == ["two", " ", " men", ",", " 12", "a"]


def test_bytes_that_are_no_character_decode_to_the_replacement_character(by_bytes):
    half = by_bytes.encode("ß")[:1] if len(by_bytes.encode("ß")) > 1 else [4 + 0xC3]
    assert by_bytes.decode([*by_bytes.encode("a"), *half]) == "a\ufffd"


def test_half_a_surrogate_pair_is_refused(by_bytes, by_words):
    for tokenizer in (by_bytes, by_words):
        with pytest.raises(DataError, match="valid Unicode"):
            tokenizer.encode("a\ud800")
        with pytest.raises(DataError, match="valid Unicode"):
            Tokenizer.train(["a\ud800 b"], 1000, mode=tokenizer.mode)


# Words


def test_words_come_back_with_single_spaces_between(by_words):
    for line in TEXT[:2]:
        assert by_words.decode(by_words.encode(f"  {line.replace(' ', '   ')} ")) == line
    assert by_words.decode(by_words.encode("bushes")) == "bushes"


def test_characters_never_seen_become_unk_and_survive_writing_out(by_words):
    ids = by_words.encode("men 語語n")
    assert ids.count(UNK) == 2
    assert by_words.unsegment(by_words.segment("men 語語n")) == "men 語語n"


def test_a_known_character_is_known_in_every_place_of_a_word():
    tokenizer = Tokenizer.train(["ab ab"], 20, mode="words")
    assert UNK not in tokenizer.encode("ba b a")
    assert tokenizer.decode(tokenizer.encode("ba b a")) == "ba b a"


def test_a_text_that_contains_the_end_mark_is_not_cut_there():
    tokenizer = Tokenizer.train(["x</w>y z"], 40, mode="words")
    assert tokenizer.decode(tokenizer.encode("x</w>y z")) == "x</w>y z"


# Ids


def test_ids_are_specials_then_base_symbols_then_merges_in_order(by_bytes, by_words):
    for tokenizer in (by_bytes, by_words):
        made = [left + right for left, right in tokenizer.merges]
        assert tokenizer.symbols == tokenizer.base + made
        assert tokenizer.vocab_size == 4 + len(tokenizer.symbols)
    assert by_bytes.encode("\x00") == [4]
    assert by_bytes.pieces([PAD, BOS, EOS, UNK, 4]) == ["<pad>", "<bos>", "<eos>", "<unk>", "\\x00"]
    assert by_bytes.vocab_size == 330 and by_words.vocab_size == 130


def test_special_ids_are_left_out_of_decoded_text(by_bytes, by_words):
    for tokenizer in (by_bytes, by_words):
        ids = tokenizer.encode("near many")
        assert tokenizer.decode([BOS, ids[0], UNK, *ids[1:], EOS, PAD, PAD]) == "near many"
        assert tokenizer.decode(np.array(ids, dtype=np.int32)) == "near many"


@pytest.mark.parametrize("number", [-1, 330, 10**9])
def test_ids_outside_the_vocabulary_are_refused(by_bytes, number):
    with pytest.raises(DataError, match=f"from 0 to 329, got {number}"):
        by_bytes.decode([number])
    with pytest.raises(DataError, match=f"from 0 to 329, got {number}"):
        by_bytes.pieces([number])


def test_a_label_stands_for_each_id_and_shows_spaces(by_bytes):
    ids = by_bytes.encode("the bushes")
    labels = by_bytes.pieces(ids)
    assert len(labels) == len(ids)
    assert "".join(labels) == "the␣bushes"


# Training


def test_a_vocabulary_too_small_for_its_base_symbols_is_refused():
    with pytest.raises(DataError, match=r"at least 260 \(4 special ids and 256 base symbols\), got 259"):
        Tokenizer.train(TEXT, 259)
    assert Tokenizer.train(TEXT, 260).merges == []


def test_a_text_with_few_pairs_gives_a_smaller_vocabulary():
    tokenizer = Tokenizer.train(["abab ab"], 1000, mode="words")
    assert tokenizer.merges == [("a", "b</w>")]
    assert tokenizer.vocab_size == 4 + 4 + 1


def test_a_text_without_words_and_an_unknown_mode_are_refused():
    with pytest.raises(DataError, match="at least one word"):
        Tokenizer.train(["", ""], 1000)
    with pytest.raises(DataError, match="mode must be bytes or words, got 'letters'"):
        Tokenizer.train(TEXT, 1000, mode="letters")


def test_a_larger_vocabulary_never_needs_more_tokens():
    sizes = [len(Tokenizer.train(TEXT * 2, size).encode(TEXT[1])) for size in (260, 280, 320, 400)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == len(TEXT[1]) > sizes[-1]


def test_remembering_words_does_not_change_their_ids(by_bytes):
    once = by_bytes.encode_lines(TEXT)
    assert by_bytes.encode_lines(TEXT) == once
    assert Tokenizer.loads(by_bytes.dumps()).encode_lines(reversed(TEXT)) == once[::-1]


def test_changing_the_ids_of_a_line_does_not_change_what_is_remembered(by_bytes):
    ids = by_bytes.encode("bushes")
    by_bytes.encode("bushes").append(0)
    assert by_bytes.encode("bushes") == ids


# Files


@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_a_saved_vocabulary_comes_back(tmp_path, mode):
    odd = ["a\u2028b\u0085 \\x41 ␣ \\ \x1f\x7f é\u0301 😀\u00a0한 \ufeff" * 2] * 2
    tokenizer = Tokenizer.train(TEXT * 2 + odd, 500, mode=mode)
    tokenizer.save(tmp_path / "vocabulary.bpe")
    loaded = Tokenizer.load(tmp_path / "vocabulary.bpe")
    assert (loaded.mode, loaded.base, loaded.merges) == (tokenizer.mode, tokenizer.base, tokenizer.merges)
    assert loaded.encode_lines(TEXT + odd) == tokenizer.encode_lines(TEXT + odd)
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.bpe"]


def test_every_symbol_shows_without_spaces_and_reads_back():
    chooser = random.Random(3)
    lines = filter(None, (random_line(chooser) for _ in range(300)))
    for symbol in [chr(byte) for byte in range(256)] + [line.encode().decode("latin-1") for line in lines]:
        shown = show_symbol(symbol, "bytes")
        assert shown.isprintable() and " " not in shown
        assert read_symbol(shown, "bytes") == symbol


def damaged(text, number, line):
    """``text`` with line ``number`` (from 1) replaced, or left out where ``line`` is None."""
    lines = text.split("\n")
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (1, "#version: 0.2", ":1: the line must begin with '#minitransformer-bpe version'"),
        (1, "#minitransformer-bpe version 2", ":1: version must be 1, got '2'"),
        (2, "mode letters", ":2: mode must be bytes or words"),
        (3, "base -1", ":3: base must be a whole number, got '-1'"),
        (3, "base 3", ":7: the line must begin with 'merges', got 'b</w>'"),
        (5, "a", ":5: a base symbol must be listed once, got 'a' again"),
        (8, "merges many", ":8: merges must be a whole number"),
        (8, "merges 3", ":11: symbols must be readable"),
        (8, "merges 1", ":10: the last merge must end its line and the file, got 'a ab</w>' after it"),
        (9, "a c</w>", ":9: a merge must join two known symbols"),
        (9, "a", ":9: the line must hold 2 symbols, got 'a'"),
        (9, "a  b</w>", ":9: symbols must be readable"),
        (9, "a \\x4", ":9: symbols must be readable"),
        (9, "a \\xff", ":9: symbols must be readable"),
        (9, None, ":9: a merge must join two known symbols"),
        (10, "a b</w>", ":10: a merge must join two known symbols for the first time"),
        (11, None, ":10: the file must go on, got its end"),
    ],
)
def test_a_damaged_vocabulary_is_refused_with_the_line(number, line, message):
    text = Tokenizer.train(["aab aab"], 100, mode="words").dumps()
    assert text.split("\n")[8:] == ["a b</w>", "a ab</w>", ""]
    with pytest.raises(DataError) as caught:
        Tokenizer.loads(damaged(text, number, line), where="my.bpe")
    assert f"my.bpe{message}" in str(caught.value) and "\n" not in str(caught.value)


def test_a_vocabulary_cut_anywhere_is_refused(by_bytes, by_words):
    for text in (by_bytes.dumps(), by_words.dumps()):
        for end in random.Random(4).sample(range(len(text)), 200):
            with pytest.raises(DataError):
                Tokenizer.loads(text[:end])


def test_files_that_cannot_be_read_or_written_are_named(tmp_path, by_bytes):
    with pytest.raises(DataError, match="none.bpe: cannot be read: No such file"):
        Tokenizer.load(tmp_path / "none.bpe")
    with pytest.raises(DataError, match="cannot be written: No such file"):
        by_bytes.save(tmp_path / "no" / "folder.bpe")
    (tmp_path / "binary.bpe").write_bytes(b"#mini\n\xff\xfe")
    with pytest.raises(DataError, match="binary.bpe:2: must be UTF-8, got byte 0xff"):
        Tokenizer.load(tmp_path / "binary.bpe")


def test_a_failed_save_leaves_the_old_file_alone(tmp_path, by_bytes, monkeypatch):
    by_bytes.save(tmp_path / "vocabulary.bpe")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(DataError, match="No space left"):
        Tokenizer.train(TEXT, 270).save(tmp_path / "vocabulary.bpe")
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.bpe"]
    assert Tokenizer.load(tmp_path / "vocabulary.bpe").merges == by_bytes.merges


def test_unreadable_pieces_are_refused_when_writing_back(by_bytes):
    with pytest.raises(DataError, match="bpe decode"):
        by_bytes.unsegment("the \\xzz")


def test_real_text_in_other_scripts_comes_back_exactly(data_folder):
    path = data_folder / "tatoeba_en_ko" / "val.ko"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    lines = read_lines(path)
    tokenizer = Tokenizer.train(lines, 400)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_lines(lines)] == lines
