"""The tokenizer: encoding and decoding lose nothing, and ids have a fixed order."""

import gc
import random
import re

import pytest
from odd_text import BY_BYTES, BY_WORDS, TEXT, random_line

from minitransformer.cli.main import main
from minitransformer.config import BOS, EOS, PAD, UNK
from minitransformer.errors import DataError
from minitransformer.text import Tokenizer
from minitransformer.text import tokenizer as tokenizer_module
from minitransformer.text.pretokenizers import ByteLevel

# Bytes: lossless


def test_bytes_give_back_any_line_exactly():
    rng = random.Random(1)
    for line in TEXT + [random_line(rng) for _ in range(500)]:
        ids = BY_BYTES.encode(line)
        assert BY_BYTES.decode(ids) == line
        assert all(4 <= number < BY_BYTES.vocab_size for number in ids)


def test_words_of_the_pattern_join_to_the_line_they_came_from():
    rng = random.Random(2)
    for line in TEXT + ["a" * 1000 + " " * 1000 + "." * 1000] + [random_line(rng) for _ in range(500)]:
        words = ByteLevel.split(line)
        assert "".join(words) == line
        assert all(0 < len(word) <= 65 for word in words)


def test_a_word_takes_the_one_space_before_it():
    assert ByteLevel.split("two  men, 12a") == ["two", " ", " men", ",", " 12", "a"]
    assert ByteLevel.split("a\u2028\n b\tc") == ["a", "\u2028\n", " b", "\t", "c"]


def test_invalid_utf8_decodes_to_the_replacement_character():
    half = BY_BYTES.encode("ß")[:1] if len(BY_BYTES.encode("ß")) > 1 else [4 + 0xC3]
    assert BY_BYTES.decode([*BY_BYTES.encode("a"), *half]) == "a\ufffd"


def test_a_lone_surrogate_is_refused():
    for tokenizer in (BY_BYTES, BY_WORDS):
        with pytest.raises(DataError, match="valid Unicode"):
            tokenizer.encode("a\ud800")
        with pytest.raises(DataError, match="valid Unicode"):
            Tokenizer.train(["a\ud800 b"], 1000, mode=tokenizer.mode)


# Words


def test_words_come_back_with_single_spaces_between():
    for line in TEXT[:2]:
        assert BY_WORDS.decode(BY_WORDS.encode(f"  {line.replace(' ', '   ')} ")) == line
    assert BY_WORDS.decode(BY_WORDS.encode("bushes")) == "bushes"


def test_unknown_characters_become_unk():
    ids = BY_WORDS.encode("men 語語n")
    assert ids.count(UNK) == 2 and BY_WORDS.decode(ids) == "men n"


def test_a_text_that_contains_the_end_mark_is_not_split_there():
    for times in (1, 2):
        tokenizer = Tokenizer.train(["x</w>y z"] * times, 100, mode="words")
        assert len(tokenizer.encode("x</w>y z")) == {1: 7, 2: 2}[times]
        assert tokenizer.decode(tokenizer.encode("x</w>y z")) == "x</w>y z"


def test_only_the_space_separates_words():
    line = "a\tb\u00a0c\u2028d e"
    tokenizer = Tokenizer.train([line], 100, mode="words")
    assert tokenizer.decode(tokenizer.encode(line)) == line


# Ids


def test_ids_are_specials_then_base_symbols_then_merges_in_order():
    for tokenizer in (BY_BYTES, BY_WORDS):
        made = [left + right for left, right in tokenizer.merges]
        assert tokenizer.symbols == tokenizer.base + made
        assert tokenizer.vocab_size == 4 + len(tokenizer.symbols)
    assert BY_BYTES.encode("\x00") == [4]
    assert BY_BYTES.subwords([PAD, BOS, EOS, UNK, 4]) == ["<pad>", "<bos>", "<eos>", "<unk>", "\\x00"]
    assert BY_BYTES.vocab_size == 330 and BY_WORDS.vocab_size == 130


@pytest.mark.parametrize("number", [-1, 330, 10**9])
def test_ids_outside_the_vocabulary_are_refused(number):
    with pytest.raises(DataError, match=f"from 0 to 329, got {number}"):
        BY_BYTES.decode([number])
    with pytest.raises(DataError, match=f"from 0 to 329, got {number}"):
        BY_BYTES.subwords([number])


def test_each_id_has_a_subword_that_shows_spaces():
    ids = BY_BYTES.encode("the bushes")
    labels = BY_BYTES.subwords(ids)
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


def test_caching_words_does_not_change_their_ids_and_takes_bounded_memory(monkeypatch):
    once = BY_BYTES.encode_lines(TEXT)
    assert BY_BYTES.encode_lines(TEXT) == once
    assert Tokenizer.loads(BY_BYTES.dumps()).encode_lines(reversed(TEXT)) == once[::-1]
    monkeypatch.setattr(tokenizer_module, "CACHE_SIZE", 3)
    small = Tokenizer.loads(BY_BYTES.dumps())
    assert small.encode_lines(TEXT) == once and 0 < len(small._ids_of) <= 3
    small.encode("a" * (tokenizer_module.CACHED_LENGTH + 1))  # too long a chunk to be kept
    assert all(len(chunk) <= tokenizer_module.CACHED_LENGTH for chunk in small._ids_of)


def test_encoding_leaves_the_garbage_collector_as_it_was():
    try:
        for switch in (gc.disable, gc.enable):
            switch()
            before = gc.isenabled()
            BY_BYTES.encode_lines(["a b"])
            assert gc.isenabled() == before
    finally:
        gc.enable()


# The command


@pytest.mark.parametrize("mode", ["bytes", "words"])
def test_training_prints_the_tokens_per_word_of_its_text(tmp_path, mode, capsys):
    text, output = tmp_path / "text", tmp_path / "tokenizer"
    text.write_text("low lower lowest\nlow newest low\n")
    assert main(["bpe", "train", str(text), "-o", str(output), "--vocab-size", "290", "--mode", mode]) == 0
    n_tokens = sum(map(len, Tokenizer.load(output).encode_lines(text.read_text().splitlines())))
    printed = capsys.readouterr().out
    assert printed.endswith(f" distinct\n{n_tokens / 6:.2f} tokens per word of this text\n")
    assert main(["bpe", "train", str(text), "-o", str(output), "--mode", mode, "--min-count", "4"]) == 0
    often, all_others = (Tokenizer.train(text.read_text().splitlines(), 8000, mode, min_count=n) for n in (4, 2))
    assert Tokenizer.load(output).merges == often.merges != all_others.merges


@pytest.mark.parametrize(("often", "figures"), [(20, "1.95 and 1.76"), (300, "")])
def test_a_wordpiece_vocabulary_is_compared_with_byte_pair_encoding_of_its_size(tmp_path, often, figures, capsys):
    """One merge: of x y, which raises the likelihood most, or of b b, which occurs 100 times."""
    text, output = tmp_path / "text", str(tmp_path / "tokenizer")
    text.write_text("aa\nab\nba\nbb\n" * 100 + "xy\n" * often)
    options = ["--vocab-size", "261", "--criterion", "word_piece"]
    assert main(["bpe", "train", str(text), "-o", output, *options]) == 0
    printed = capsys.readouterr()
    warning = f"minitransformer bpe train: warning: tokens per word should be at most 1.1 times .*, got {figures}; use"
    assert bool(re.match(warning, printed.err)) == bool(figures) and printed.err.count("\n") == bool(figures)
    assert f"{'1.76' if figures else '1.57'} with byte-pair encoding of the same size\n" in printed.out
