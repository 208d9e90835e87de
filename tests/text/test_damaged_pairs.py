"""Binarised pairs that are damaged or incomplete are never opened, or named where they are read."""

import json
import os
import shutil

import numpy as np
import pytest
from binarised_texts import binarised, random_texts

from minitransformer.config import PAD
from minitransformer.errors import DataError
from minitransformer.text import Tokenizer, binary
from minitransformer.text.binary import open_pairs
from minitransformer.training import Corpus


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return random_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def pairs(texts, tmp_path_factory):
    return binarised(texts, tmp_path_factory.mktemp("ids") / "train")


def test_the_ids_of_another_tokenizer_and_too_long_ones_are_refused(texts, pairs):
    _, tokenizer, src, _ = texts
    with pytest.raises(DataError, match="must be made with the tokenizer of data.tokenizer"):
        Corpus.from_binary(Tokenizer.train(src[:50], 290), pairs)
    with pytest.raises(DataError, match="at most data.max_length = 59, got 60"):
        Corpus.from_binary(tokenizer, pairs, max_length=59)


@pytest.mark.parametrize("fault", ["version", "format", "kind", "lacking", "no json", "short", "gone", "ends"])
def test_a_damaged_folder_is_refused_in_one_line(pairs, tmp_path, fault):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    header = json.loads((folder / "header.json").read_text())
    headers = {
        "version": header | {"version": 2},
        "format": header | {"format": "x"},
        "kind": header | {"pairs": "5"},
        "lacking": {name: value for name, value in header.items() if name != "max_length"},
    }
    if fault in headers:
        (folder / "header.json").write_text(json.dumps(headers[fault]))
    elif fault == "no json":
        (folder / "header.json").write_text("{")
    elif fault == "short":
        os.truncate(folder / "tgt.ids", 10)
    elif fault == "gone":
        (folder / "src.ends").unlink()
    else:
        ends = np.fromfile(folder / "src.ends", "<u8")
        (ends - 1).tofile(folder / "src.ends")
    with pytest.raises(DataError) as caught:
        open_pairs(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


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


@pytest.mark.parametrize("damage", DAMAGED_NUMBERS)
def test_offsets_and_counts_that_binarise_never_writes_are_refused(pairs, tmp_path, damage):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    header, ends = json.loads((folder / "header.json").read_text()), np.fromfile(folder / "src.ends", "<u8")
    DAMAGED_NUMBERS[damage](header, ends)
    (folder / "header.json").write_text(json.dumps(header))
    ends[: header["pairs"]].tofile(folder / "src.ends")
    if damage == "no source tokens":
        os.truncate(folder / "src.ids", 0)
    with pytest.raises(DataError, match="binarise the text again") as caught:
        open_pairs(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_a_header_that_never_ends_is_refused(pairs, tmp_path):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    (folder / "header.json").write_bytes(b" " * 10_000_000)
    with pytest.raises(DataError, match="header.json: cannot be read: File too large"):
        open_pairs(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_a_header_is_refused_at_once(pairs, tmp_path):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    (folder / "header.json").unlink()
    os.mkfifo(folder / "header.json")
    with pytest.raises(DataError, match="got another .no ordinary file"):
        open_pairs(folder)


@pytest.mark.parametrize(
    ("id_", "message"),
    [
        (PAD, r"tgt.ids: ids must be from 3 to 299, got 0 to \d+"),
        (300, r"tgt.ids: ids must be from 3 to 299, got \d+ to 300"),
    ],
)
def test_an_id_that_is_no_token_is_refused_where_it_is_opened(pairs, tmp_path, monkeypatch, id_, message):
    monkeypatch.setattr(binary, "CHUNK_IDS", 3)  # ids are checked in parts
    folder = shutil.copytree(pairs, tmp_path / "ids")
    ids = np.fromfile(folder / "tgt.ids", "<u2")
    ids[7] = id_
    ids.tofile(folder / "tgt.ids")
    with pytest.raises(DataError, match=message):
        open_pairs(folder)
