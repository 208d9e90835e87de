"""Binarized pairs that are damaged or incomplete are never opened, or named where they are read."""

import json
import os
import shutil

import numpy as np
import pytest
from systems import needs

from minitransformer.config import EOS
from minitransformer.errors import DataError
from minitransformer.text import Tokenizer, binary
from minitransformer.text.binary import open_pairs
from minitransformer.training import Corpus


def test_the_ids_of_another_tokenizer_and_too_long_ones_are_refused(texts, pairs):
    _, tokenizer, src, _ = texts
    with pytest.raises(DataError, match="must be made with the tokenizer of data.tokenizer"):
        Corpus.from_binary(Tokenizer.train(src[:50], 290), pairs)
    with pytest.raises(DataError, match="at most data.max_length = 59, got 60"):
        Corpus.from_binary(tokenizer, pairs, max_length=59)


def header_with(change):
    def damage(folder):
        header = json.loads((folder / "header.json").read_text())
        change(header)
        (folder / "header.json").write_text(json.dumps(header))

    return damage


def pipe_for_a_header(folder):
    (folder / "header.json").unlink()
    os.mkfifo(folder / "header.json")


def ends_too_early(folder):
    (np.fromfile(folder / "src.ends", "<u8") - 1).tofile(folder / "src.ends")


def no_source_tokens(header, ends):
    header.update(pairs=1, n_src_tokens=0)
    ends[:] = 0


DAMAGED_NUMBERS = {
    "an offset that falls": lambda header, ends: ends.__setitem__(5, ends[3]),
    "an empty sentence": lambda header, ends: ends.__setitem__(5, ends[4]),
    "an empty first sentence": lambda header, ends: ends.__setitem__(0, 0),
    "a sentence of more than 2^31 tokens": lambda header, ends: ends.__setitem__(10, ends[9] + 2**31 + 5),
    "a sentence longer than max_length": lambda header, ends: header.update(max_length=5),
    "a negative count": lambda header, ends: header.update(n_long=-5),
    "a count beyond 64 bits": lambda header, ends: header.update(n_empty=10**30),
    "fewer tokens than sentences": lambda header, ends: header.update(n_src_tokens=1),
    "no pairs": lambda header, ends: header.update(pairs=0),
    "no source tokens": no_source_tokens,
}


def with_numbers(change):
    def damage(folder):
        header, ends = json.loads((folder / "header.json").read_text()), np.fromfile(folder / "src.ends", "<u8")
        change(header, ends)
        (folder / "header.json").write_text(json.dumps(header))
        ends[: header["pairs"]].tofile(folder / "src.ends")
        if not header["n_src_tokens"]:
            os.truncate(folder / "src.ids", 0)

    return damage


DAMAGED_FILES = {
    "another version": (header_with(lambda header: header.update(version=2)), None),
    "another format": (header_with(lambda header: header.update(format="x")), None),
    "a count as text": (header_with(lambda header: header.update(pairs="5")), None),
    "a key is missing": (header_with(lambda header: header.pop("max_length")), None),
    "no JSON": (lambda folder: (folder / "header.json").write_text("{"), None),
    "a header that never ends": (
        lambda folder: (folder / "header.json").write_bytes(b" " * 10_000_000),
        "header.json: cannot be read: File too large",
    ),
    "a short file": (lambda folder: os.truncate(folder / "tgt.ids", 10), None),
    "a file is missing": (lambda folder: (folder / "src.ends").unlink(), None),
    "ends that are too early": (ends_too_early, None),
    "a pipe": (pipe_for_a_header, "cannot be read: a device or pipe, not an ordinary file"),
    **{name: (with_numbers(change), "binarize the text again") for name, change in DAMAGED_NUMBERS.items()},
}
"""Numbers are those that binarize never writes."""


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=[needs("named pipes")] * (name == "a pipe")) for name in DAMAGED_FILES]
)
def test_a_damaged_folder_is_refused_in_one_line(pairs, tmp_path, damage):
    act, message = DAMAGED_FILES[damage]
    act(folder := shutil.copytree(pairs, tmp_path / "ids"))
    with pytest.raises(DataError, match=message) as caught:
        open_pairs(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_a_sentence_must_fit_into_max_length_with_its_eos(pairs, tmp_path):
    longest = max(len(ids) for side in open_pairs(pairs)[1:] for ids in side)
    folder = shutil.copytree(pairs, tmp_path / "ids")
    header_with(lambda header: header.update(max_length=longest + 1))(folder)
    open_pairs(folder)
    header_with(lambda header: header.update(max_length=longest))(folder)
    with pytest.raises(DataError, match=f"must have from 1 to {longest - 1} tokens, got {longest}"):
        open_pairs(folder)


@pytest.mark.parametrize(
    ("id_", "message"),
    [
        (EOS, r"tgt.ids: ids must be from 3 to 299, got 2 to \d+"),
        (300, r"tgt.ids: ids must be from 3 to 299, got \d+ to 300"),
    ],
)
def test_an_id_that_is_no_token_is_refused_where_it_is_opened(pairs, tmp_path, monkeypatch, id_, message):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    ids = np.fromfile(folder / "tgt.ids", "<u2")
    ids[-1] = id_
    monkeypatch.setattr(binary, "CHUNK_IDS", len(ids) - 1)  # ids are checked in parts, of which the last is short
    ids.tofile(folder / "tgt.ids")
    with pytest.raises(DataError, match=message):
        open_pairs(folder)
