"""The reader of SentencePiece's unigram models: equal to the library, and not impressed by what is no model."""

import contextlib
import struct
import time

import numpy as np
import pytest
from extras import need
from foreign_models import unigram_model

from minitransformer.errors import DataError
from minitransformer.text import Tokenizer, read_lines
from minitransformer.text.binarize import binarize
from minitransformer.text.piece_tokenizer import PieceTokenizer
from minitransformer.text.sentencepiece import CharacterMap, UnigramModel
from minitransformer.training import Corpus

LINES = [
    "The cat sleeps in the old house.",
    "Die Katze schläft im alten Haus.",
    "ein Hund, zwei Katzen – 3 Häuser",
] * 30


def trained(lines: list[str] = LINES, **options) -> bytes:
    return unigram_model(lines, 90, **options)


def field(number: int, data: bytes) -> bytes:
    """One of a protobuf message."""
    size, digits = len(data), b""
    while size > 127:
        size, digits = size >> 7, digits + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + digits + bytes([size]) + data


def random_line(rng: np.random.Generator) -> str:
    """Letters of the model, spaces, compatibility forms, and characters from all of Unicode."""
    some = list("The catdieäßHäuser.,–3  ﬁ①㍿\u3000\t\u200b\u0301한글①<x>\u2581")
    wild = [chr(c) for c in rng.integers(1, 0x110000, 6).tolist() if not 0xD800 <= c < 0xE000]
    return "".join(rng.choice([*some, *wild], rng.integers(0, 30)).tolist())


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf", "identity"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"user_defined_symbols": ["<x>", "at", "\u2581i"]},
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False},
    ],
)
def test_pieces_are_those_of_the_library(rng, rule, options):
    data = trained(normalization_rule_name=rule, **options)
    library = need("sentencepiece").SentencePieceProcessor(model_proto=data)
    ours = UnigramModel(data, "model")
    for line in [*LINES[:3], "", " ", "\u2581", "\x0b", *(random_line(rng) for _ in range(300))]:
        assert ours.encode(line) == library.encode(line, out_type=str), repr(line)


def test_equal_sums_and_unknown_characters_are_judged_as_the_library_does():
    """One "aa" is as good as two "a"; "yz" is worth more than "xy" and "z", but not the price of an unknown "x"."""
    scores = {"<unk>": 0.0, "\u2581": -1.0, "a": -1.0, "aa": -2.0, "xy": -20.0, "z": -5.0, "yz": -1.0}
    pieces = (field(1, text.encode()) + b"\x15" + struct.pack("<f", score) for text, score in scores.items())
    data = b"".join(field(1, piece + b"\x18\x02" * (not number)) for number, piece in enumerate(pieces))
    library = need("sentencepiece").SentencePieceProcessor(model_proto=data)
    for line, pieces in {"aa": ["aa"], "aaa": ["a", "aa"], "xyz": ["xy", "z"]}.items():
        assert UnigramModel(data, "model").encode(line) == library.encode(line, out_type=str) == ["\u2581", *pieces]


@pytest.mark.slow
def test_pieces_are_those_of_the_library_on_corpora_and_all_of_unicode(data_folder, rng):
    files = sorted(data_folder.glob("*/*.??"))
    lines = [line for file in files for line in read_lines(file)[:2000]]
    data = trained(lines[::7], vocab_size=8000)
    library = need("sentencepiece").SentencePieceProcessor(model_proto=data)
    ours = UnigramModel(data, "model")
    lines += [random_line(rng) for _ in range(100_000)]
    assert [line for line in lines if ours.encode(line) != library.encode(line, out_type=str)] == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"model_type": "bpe"}, "must be a unigram model, got another kind"),
        ({"model_type": "char"}, "must be a unigram model"),
        ({"byte_fallback": True, "vocab_size": 340}, "without byte_fallback"),
        ({"treat_whitespace_as_suffix": True}, "without treat_whitespace_as_suffix"),
    ],
)
def test_models_of_another_kind_are_refused_by_name(options, message):
    with pytest.raises(DataError, match=message):
        UnigramModel(trained(**options), "other.spm")


@pytest.mark.parametrize(
    "data", [b"", b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"hello\n", b"\x0a\x00" * 9]
)
def test_what_is_no_model_is_refused(data):
    with pytest.raises(DataError, match=r"other\.spm: must"):
        UnigramModel(data, "other.spm")


@pytest.mark.parametrize("score", [3e38, -3e38, float("nan")])
def test_scores_whose_sums_no_float32_holds_are_refused(score):
    pieces = [b"\x0a\x01" + piece + b"\x15" + struct.pack("<f", score) for piece in (b"a", b"b")]
    data = b"".join(b"\x0a" + bytes([len(piece)]) + piece for piece in pieces)
    with pytest.raises(DataError, match=r"other\.spm: must have pieces with scores within"):
        UnigramModel(data, "other.spm").encode("ab" * 9)


def test_a_character_map_that_makes_a_letter_a_megabyte_is_refused():
    units = [0] * 512  # of a trie: each leads to its children by the exclusive or of their bytes
    units[0], units[256 ^ ord("a")] = 256 << 10, ord("a") | 1 << 8 | (256 ^ ord("a") ^ 511) << 10
    units[511] = 1 << 31  # the text at 0 takes the place of the match
    trie = struct.pack("<513I", 4 * len(units), *units)
    assert CharacterMap(trie + b"b" * 99 + b"\0").longest_match(b"a", 0) == (1, b"b" * 99)
    with pytest.raises(ValueError, match="replacement"):
        CharacterMap(trie + b"b" * (1 << 20) + b"\0")


PIECES = {
    "50,000 pieces that each word is compared with": [(f"x{n}", 4) for n in range(50_000)],
    "30,000 pieces of either kind": [(f"{kind}x{n}", kind) for n in range(30_000) for kind in (1, 4)],
    "a piece of 100,000 letters": [("b" * 100_000, 1)],
}


@pytest.mark.parametrize("pieces", PIECES)
def test_no_model_makes_a_line_take_minutes(pieces):
    listed = b"".join(field(1, field(1, text.encode()) + bytes([3 << 3, kind])) for text, kind in PIECES[pieces])
    began = time.process_time()
    with contextlib.suppress(DataError):
        assert UnigramModel(field(1, field(1, b"a")) + listed, "model").encode("a" * 10_000)[1:] == ["a"] * 10_000
    assert time.process_time() - began < 5


@pytest.mark.parametrize("number", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_cut_or_changed_file_does_anything_else(number, rng):
    whole = trained()
    for turn in range(number):
        data = bytearray(whole[: rng.integers(0, len(whole))] if turn % 2 else whole)
        for _ in range(turn % 5 * bool(data)):
            data[rng.integers(0, len(data))] = rng.integers(0, 256)
        try:
            UnigramModel(bytes(data), "changed.spm").encode("Die ﬁ Katze")
        except DataError as error:
            assert "\n" not in str(error)


def test_a_vocabulary_of_pieces_is_saved_as_text_and_loads_as_any_tokenizer(tmp_path):
    models = [trained(LINES[0::3]), trained(LINES[1::3])]
    names = [
        list(dict.fromkeys(piece for line in LINES for piece in UnigramModel(m, "m").encode(line))) for m in models
    ]
    tokenizer = PieceTokenizer(models, names)
    tokenizer.save(tmp_path / "pieces")
    again = Tokenizer.load(tmp_path / "pieces")
    assert again.dumps() == tokenizer.dumps() and again.vocab_size == len(names[1]) + 4
    assert again.decode(again.target.encode(LINES[1])) == LINES[1]
    pieces = UnigramModel(models[0], "m").encode(LINES[0])
    assert again.encode(LINES[0]) == [names[0].index(piece) + 4 for piece in pieces]
    assert again.subwords([0, *again.encode(LINES[0]), 2]) == ["<pad>", *pieces, "<eos>"]


def test_a_piece_is_shown_without_control_characters():
    model = trained()
    assert PieceTokenizer([model, model], [["a", "\x1b[31m\0"]] * 2).subwords([0, 4, 5]) == [
        "<pad>",
        "a",
        r"\x1b[31m\x00",
    ]


def test_pairs_of_two_vocabularies_are_binarized_where_the_source_has_the_larger_one(tmp_path):
    more = [f"<{number}>" for number in range(70_000)]  # beyond 16 bits
    model = trained()
    names = list(dict.fromkeys(piece for line in LINES for piece in UnigramModel(model, "m").encode(line)))
    tokenizer = PieceTokenizer([model, model], [more + names, names])
    files = (tmp_path / "a", tmp_path / "b")
    for path, line in zip(files, LINES, strict=False):
        path.write_text(f"{line}\n", encoding="utf-8")
    binarize(tokenizer, [files], tmp_path / "ids")
    train = Corpus.from_binary(tokenizer, tmp_path / "ids").train
    assert list(train[0][0]) == tokenizer.encode(LINES[0]) and min(train[0][0]) > 70_000
    assert list(train[1][0]) == tokenizer.target.encode(LINES[1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"models": ["!"], "pieces": [[], []]}',
        '{"models": [], "pieces": 3}',
        '{"models": ["", ""], "pieces": [["a"], ["\\ud800"]]}',
        "[" * 99999,
    ],
)
def test_a_damaged_vocabulary_of_pieces_is_one_line(text):
    with pytest.raises(DataError, match="must be a vocabulary of pieces, got a damaged one") as caught:
        Tokenizer.loads("minitransformer pieces\n" + text, "file")
    assert "\n" not in str(caught.value)
