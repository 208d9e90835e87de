"""Cleaning: which pairs are kept or left out and why, with the same result for any number of processes."""

import random
import re
import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest
from odd_text import random_line

from examples.wmt14.clean import main
from examples.wmt14.cleaning import REASONS, CleaningRules, SeenHashes, clean, normalize, reason_to_leave_out
from minitransformer.errors import ConfigError, install_hint
from minitransformer.text import processes as text_processes

LATIN = CleaningRules(src_script="Latin", tgt_script="Latin")


@pytest.mark.parametrize("between", ["", "\x07"])
def test_a_line_of_combining_marks_takes_no_quadratic_time(between):
    """400,000 of them once took more than half an hour."""
    marks = (between + "\u0301" + between + "\u0316") * 200_000
    shown = normalize(f"a b{marks}c d")
    assert shown.startswith("a b") and shown.endswith("c d") and len(shown) == len("a bc d") + 1000
    assert normalize("x" + "\u0301\u0316" * 500 + " y" * 1000) == normalize("x" + "\u0301\u0316" * 500) + " y" * 1000


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        ("a b c", "x y z", None),
        ("", "x", "empty"),
        ("x", "", "empty"),
        ("a " * 250 + "a", "x " * 249 + "x", "long"),
        ("a " * 249 + "a", "x " * 249 + "x", None),
        ("b" * 101, "x", "long word"),
        ("b" * 100, "x", None),
        ("a b c d e", "x y", "ratio"),
        ("a b c d", "x y", None),
        ("Hallo Welt", "Hallo Welt", "copy"),
        ("Hallo STRASSE", "hallo Straße", "copy"),
        ("Hallo Welt", "Hallo Welt !", None),
        ("привет мир", "Hallo Welt", "script"),
        ("Hallo Welt", "привет мир", "script"),
        ("the letter ж", "der Buchstabe ж", None),
        ("abc жз", "Hallo Welt", None),
        ("ab жз", "Hallo Welt", "script"),
        ("1 234 - 5", "1 234 – 5", None),
        ("ναι", "ja", "script"),
    ],
)
def test_a_pair_is_left_out_for_the_first_rule_that_it_breaks(src, tgt, reason):
    assert reason_to_leave_out(src, tgt, LATIN) == reason


def test_normalized_text_is_nfc_with_single_spaces(rng):
    assert normalize(" a\u0085b\u2028c\t\td\u00a0e\x00f\x07 ") == "a b c d ef"
    assert normalize("Ma\u0308nner") == "Männer" and normalize("\ufeffa \x00 b") == "\ufeffa b"
    generator = random.Random(int(rng.integers(1 << 30)))
    for line in (random_line(generator) for _ in range(500)):
        once = normalize(line)
        assert normalize(once) == once == unicodedata.normalize("NFC", once)
        assert once.split() == once.split(" ") or once == ""
        assert not any(unicodedata.category(c) == "Cc" for c in once)
        plain = [c for c in unicodedata.normalize("NFC", line) if not c.isspace() and unicodedata.category(c) != "Cc"]
        assert unicodedata.normalize("NFC", "".join(plain)).replace(" ", "") == once.replace(" ", "") or plain == []


def test_seen_hashes_are_recognized_as_by_a_set(rng):
    seen, known = SeenHashes(), set()
    for _ in range(60):
        numbers = rng.integers(0, 400, rng.integers(0, 40)).astype(np.uint64)
        expected = []
        for number in numbers.tolist():
            expected.append(number not in known)
            known.add(number)
        assert seen.add(numbers).tolist() == expected
    sizes = [len(part) for part in seen.arrays]
    assert sum(sizes) == len(known)
    assert all(larger >= 2 * smaller for larger, smaller in zip(sizes, sizes[1:], strict=False))


@pytest.mark.parametrize("processes", [1, 2])
def test_every_pair_is_counted_once_and_duplicates_are_kept_once(processes, monkeypatch):
    monkeypatch.setattr(text_processes, "CHUNK_LINES", 3)
    pairs = [("a", "x"), ("a ", " x"), ("a", "y"), ("", "x"), ("b c d", "z")]
    pairs += [("a", "x"), ("ж", "x"), ("a", "y"), ("e", "f"), ("G ", "g")]
    counts = Counter()
    kept = [pair for some in clean(pairs, LATIN, counts, processes) for pair in some]
    assert kept == [("a", "x"), ("a", "y"), ("e", "f")]
    assert counts == Counter(pairs=10, normalized=2, empty=1, copy=1, ratio=1, script=1, duplicate=3, kept=3)
    assert counts["pairs"] == counts["kept"] + sum(counts[step] for step in REASONS)


def test_punctuation_is_normalized_by_the_rules_of_each_side(moses):
    pairs = [
        ("He said “yes”, and – ‘no’…", "Er sagte „ja“, und\u00a0– ‚nein‘…"),
        ("«Yes!»", "«\u00a0Oui\u00a0!\u00a0»"),
    ]
    rules, counts = CleaningRules(punctuation=("en", "de")), Counter()
    assert list(clean(pairs, rules, counts)) == [
        [("He said \"yes,\" and - 'no'...", "Er sagte \"ja\", und - 'nein'..."), ('"Yes!"', '"Oui!"')]
    ]
    assert counts["normalized"] == 2
    assert list(clean(pairs[:1], CleaningRules(), Counter())) == [[(pairs[0][0], pairs[0][1].replace("\u00a0", " "))]]


@pytest.mark.parametrize("name", ["Klingon", "Latin}", " "])
def test_an_unknown_script_is_refused(name):
    with pytest.raises(ConfigError, match="a script must be a Unicode script name"):
        CleaningRules(src_script=name)


# The command


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "a.en").write_bytes("\ufeffone two\r\nsame\r\n\r\nsame\r\n".encode())
    (tmp_path / "a.de").write_text("eins zwei\ngleich\nleer\ngleich\n", encoding="utf-8")
    (tmp_path / "b.en").write_text("a\u2028b\n", encoding="utf-8")
    (tmp_path / "b.de").write_text("x y", encoding="utf-8")
    return tmp_path


def command(folder, *options, src=("a.en", "b.en"), tgt=("a.de", "b.de"), output=("c.en", "c.de")):
    paths = [[str(folder / name) for name in names] for names in (src, tgt, output)]
    return main(["--src", *paths[0], "--tgt", *paths[1], "-o", *paths[2], *options])


def printed(capsys) -> dict[str, int]:
    """The counts of the table, by what stands before each; their shares are of all pairs."""
    rows = re.findall(r"^(\S.*?) +([\d,]+) +([\d.]+) %$", capsys.readouterr().out, re.M)
    counts = {name.removeprefix("left out: "): int(count.replace(",", "")) for name, count, _ in rows}
    assert [share for *_, share in rows] == [f"{100 * n / counts['pairs read']:.2f}" for n in counts.values()]
    return counts


def test_files_are_cleaned_one_after_the_other_and_counted(texts, capsys):
    assert command(texts, "--processes", "1") == 0
    assert (texts / "c.en").read_text(encoding="utf-8") == "one two\nsame\na b\n"
    assert (texts / "c.de").read_text(encoding="utf-8") == "eins zwei\ngleich\nx y\n"
    out = {"empty": 1, "duplicate": 1}
    whole = {"pairs read": 5, "changed by normalizing": 1, "kept": 3}
    assert printed(capsys) == whole | dict.fromkeys(REASONS, 0) | out


@pytest.mark.parametrize(
    ("option", "value", "reason", "count"),
    [
        ("--max-words", "1", "long", 2),
        ("--max-ratio", "1.5", "ratio", 1),
        ("--max-word", "5", "long word", 2),
        ("--src-script", "Latin", "script", 1),
        ("--tgt-script", "Latin", "script", 1),
    ],
)
def test_each_option_leaves_out_what_it_names(texts, capsys, option, value, reason, count):
    for name, line in (("b.en", "ναι ναι\n"), ("b.de", "ναι\n")):
        (texts / name).write_text(line, encoding="utf-8")
    assert command(texts, "--processes", "1", option, value) == 0
    assert printed(capsys)[reason] == count


def test_the_command_normalizes_punctuation_and_names_the_missing_package(texts, moses, monkeypatch, refused):
    (texts / "b.de").write_text("„x“\n", encoding="utf-8")
    assert command(texts, "--normalize-punctuation", "en", "de", "--processes", "1") == 0
    assert (texts / "c.de").read_text(encoding="utf-8") == 'eins zwei\ngleich\n"x"\n'
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    code = command(texts, "--normalize-punctuation", "en", "cs")
    refused(code, f"sacremoses must be installed; {install_hint('eval')}")
    assert (texts / "c.de").read_text(encoding="utf-8").endswith('"x"\n')


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"src": ("a.en",)}, "must name the same number of files, got 1 and 2"),
        ({"tgt": ("b.de", "a.de")}, "must have the same number of lines, got 4 and 1"),
        ({"output": ("a.en", "c.de")}, "output must not be one of the inputs"),
        ({"output": ("c.en", "c.en")}, "--output must name two files"),
        ({"output": ("c.en", "folder/../c.en")}, "--output must name two files"),
        ({"src": ("bad.en", "b.en")}, "bad.en:2: must be UTF-8, got byte 0xff at byte 3 of the line"),
        ({"src": ("none.en", "b.en")}, "none.en: cannot be read"),
    ],
)
def test_bad_text_leaves_existing_files_unchanged(texts, refused, options, message):
    (texts / "bad.en").write_bytes(b"good\nba\xffd\n\n\n")
    (texts / "c.en").write_text("old\n")
    (texts / "folder").mkdir()
    before = {path.name: path.read_bytes() for path in texts.iterdir() if path.is_file()}
    refused(command(texts, "--processes", "1", **options), message)
    assert {path.name: path.read_bytes() for path in texts.iterdir() if path.is_file()} == before
