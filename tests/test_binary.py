"""Binarised pairs: they equal the pairs encoded from text, and an incomplete folder is never opened."""

import json
import os
import re
import shutil
import time

import numpy as np
import pytest
from tiny_run import final_state, tiny_config

from minitransformer.cli.main import main
from minitransformer.config import PAD, UNK, DataConfig
from minitransformer.errors import ConfigError, DataError
from minitransformer.text import BatchStream, Tokenizer, binary, encode_parallel
from minitransformer.text import processes as text_processes
from minitransformer.text.binarise import binarise
from minitransformer.text.binary import fingerprint_of, lengths_of, open_pairs
from minitransformer.text.prefetch import Prefetcher
from minitransformer.text.pretokenizers import END
from minitransformer.training import Corpus, Trainer

BUDGETS = {"src_tokens": 200, "tgt_tokens": 200, "seed": 3}


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two pairs of files, a tokenizer, and all lines."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(5)
    lines = [
        " ".join("".join(rng.choice(list("abcde"), rng.integers(1, 7))) for _ in range(rng.integers(0, 30)))
        for _ in range(800)
    ]
    src, tgt = lines[:400], lines[400:]
    files = [(folder / f"{part}.en", folder / f"{part}.de") for part in range(2)]
    for paths, rows in zip(files, (slice(0, 150), slice(150, 400)), strict=True):
        for path, side in zip(paths, (src, tgt), strict=True):
            write(path, side[rows])
    return files, Tokenizer.train(lines, 300), src, tgt


@pytest.fixture(scope="module")
def pairs(texts, tmp_path_factory):
    files, tokenizer, _, _ = texts
    folder = tmp_path_factory.mktemp("ids") / "train"
    binarise(tokenizer, files, folder, max_length=60)
    return folder


def equal(mapped, lists):
    return len(mapped) == len(lists) and all(list(a) == list(b) for a, b in zip(mapped, lists, strict=True))


def test_binarised_pairs_are_those_of_the_text(texts, pairs):
    _, tokenizer, src, tgt = texts
    expected, found = encode_parallel(tokenizer, src, tgt, max_length=60), open_pairs(pairs)
    assert equal(found.src, expected.src) and equal(found.tgt, expected.tgt)
    header = found.header
    assert (header.n_empty, header.n_long) == (expected.n_empty, expected.n_long)
    assert min(header.n_empty, header.n_long) > 0
    assert header.n_tgt_tokens == sum(map(len, expected.tgt))
    assert lengths_of(found.src).tolist() == [len(ids) for ids in expected.src]
    assert header.fingerprint == fingerprint_of((expected.src, expected.tgt))


def test_any_number_of_processes_writes_the_same_bytes(texts, pairs, tmp_path, monkeypatch):
    files, tokenizer, _, _ = texts
    monkeypatch.setattr(text_processes, "CHUNK", 70)
    binarise(tokenizer, files, tmp_path / "again", max_length=60, processes=2)
    for name in os.listdir(pairs):
        assert (tmp_path / "again" / name).read_bytes() == (pairs / name).read_bytes(), name


def test_large_vocabularies_keep_their_ids(tmp_path):
    files = (tmp_path / "a.en", tmp_path / "a.de")
    for path in files:
        path.write_text(f"{chr(0x10000 + 69_999)} x\n", encoding="utf-8")
    base = [chr(0x10000 + number) + END for number in range(70_000)]
    tokenizer = Tokenizer("words", base, [])
    binarise(tokenizer, [files], tmp_path / "ids")
    assert open_pairs(tmp_path / "ids").src[0].tolist() == [4 + 69_999, UNK]
    assert (tmp_path / "ids" / "src.ids").stat().st_size == 4 * 2


def test_batches_of_binarised_pairs_are_batches_of_lists(texts, pairs):
    _, tokenizer, src, tgt = texts
    lists, found = encode_parallel(tokenizer, src, tgt, max_length=60), open_pairs(pairs)
    from_memory, from_disk = BatchStream(lists.src, lists.tgt, **BUDGETS), BatchStream(found.src, found.tgt, **BUDGETS)
    assert from_disk.batches_per_epoch == from_memory.batches_per_epoch
    for number in range(2 * from_disk.batches_per_epoch):
        ours, theirs = from_disk.batch(number), from_memory.batch(number)
        for name in ("src", "tgt_in", "tgt_out", "rows"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_a_binarised_corpus_is_the_one_from_text(texts, pairs):
    _, tokenizer, src, tgt = texts
    disk, text = Corpus.from_binary(tokenizer, pairs), Corpus.from_lines(tokenizer, (src, tgt), max_length=60)
    assert disk.fingerprint() == text.fingerprint()
    assert disk.longest() == text.longest()
    assert (disk.n_empty, disk.n_long) == (text.n_empty, text.n_long)


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
def test_offsets_and_counts_that_binarise_never_writes_are_refused(pairs, tmp_path, monkeypatch, damage):
    monkeypatch.setattr(binary, "CHUNK", 3)  # offsets are checked in parts
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


def test_a_header_of_another_vocabulary_size_is_refused(texts, pairs, tmp_path):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | {"vocab_size": header["vocab_size"] - 1}))
    with pytest.raises(DataError, match="must be made with the tokenizer of data.tokenizer"):
        Corpus.from_binary(texts[1], folder)


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
        (UNK, "must have the fingerprint of the header, got another"),
    ],
)
def test_the_doctor_finds_a_changed_id(pairs, tmp_path, capsys, id_, message):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    assert main(["doctor", "--ids", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: {open_pairs(pairs).header.pairs} pairs, as they were written\n"
    ids = np.fromfile(folder / "tgt.ids", "<u2")
    ids[7] = id_
    ids.tofile(folder / "tgt.ids")
    open_pairs(folder)
    assert main(["doctor", "--ids", str(folder)]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_padding_among_the_ids_is_found_in_the_batch_that_has_it(pairs, tmp_path):
    folder = shutil.copytree(pairs, tmp_path / "ids")
    for side in ("src", "tgt"):
        ids = np.fromfile(pairs / f"{side}.ids", "<u2")
        ids[-1] = PAD
        ids.tofile(folder / f"{side}.ids")
        found = open_pairs(folder)
        stream = BatchStream(found.src, found.tgt, **BUDGETS)
        with pytest.raises(DataError, match=f"no padding .id 0. in them, got some in row {len(found.src) - 1}"):
            for number in range(stream.batches_per_epoch):
                stream.batch(number)
        shutil.copy(pairs / f"{side}.ids", folder)


def test_a_text_that_cannot_be_encoded_leaves_no_folder(texts, tmp_path):
    files, tokenizer, _, _ = texts
    short = tmp_path / "short.de"
    short.write_text("a\n" * 7)
    (tmp_path / "empty.en").write_text("\n\n")
    for bad in ([*files, (files[0][0], short)], [(tmp_path / "none.en", short)], [(tmp_path / "empty.en",) * 2]):
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(DataError):
            binarise(tokenizer, bad, tmp_path / "ids")
        assert sorted(os.listdir(tmp_path)) == before


def test_a_partial_folder_is_replaced_and_a_complete_one_is_not(texts, pairs, tmp_path):
    files, tokenizer, _, _ = texts
    left_behind = tmp_path / f".ids.{'0' * 16}.partial"
    left_behind.mkdir()
    (left_behind / "src.ids").write_bytes(b"junk")
    binarise(tokenizer, files, tmp_path / "ids", max_length=60)
    assert os.listdir(tmp_path) == ["ids"]
    with pytest.raises(DataError, match="must not exist yet"):
        binarise(tokenizer, files, tmp_path / "ids")
    assert open_pairs(tmp_path / "ids").header == open_pairs(pairs).header


def test_a_line_of_megabytes_is_left_out_without_encoding_it(texts, monkeypatch):
    _, tokenizer, _, _ = texts
    encode, encoded = tokenizer.encode, []
    monkeypatch.setattr(tokenizer, "encode", lambda line: encoded.append(line) or encode(line))
    kept = encode_parallel(tokenizer, ["a b", "ab" * 5_000_000], ["b", "b"], max_length=60)
    assert (len(kept.src), kept.n_long, encoded) == (1, 1, ["a b", "b"])
    words = Tokenizer.train(["a b"], 20, mode="words")
    assert encode_parallel(words, ["a" + " " * 10_000 + "b"], ["b"], max_length=60).n_long == 0


def test_ids_and_text_together_are_refused(texts):
    with pytest.raises(ConfigError, match="data.train_ids must stand alone"):
        Corpus.from_files(DataConfig(train_ids="ids", train_src="a.en"))


# Batches built ahead of time


def test_prefetched_batches_are_those_of_the_stream_and_the_next_are_kept(pairs):
    found = open_pairs(pairs)
    stream, plain = (BatchStream(found.src, found.tgt, **BUDGETS) for _ in range(2))
    ahead = Prefetcher(stream)
    numbers = [0, 1, 2, 3, 50, 4, 5, 2 * stream.batches_per_epoch, 0, 1]
    for number in [*numbers, *range(stream.batches_per_epoch - 3, stream.batches_per_epoch + 3)]:
        np.testing.assert_array_equal(ahead.batch(number).rows, plain.batch(number).rows)
        assert sorted(ahead.pending) == list(range(number + 1, number + 1 + Prefetcher.AHEAD))


def test_the_next_batches_are_built_in_the_background():
    made = []

    class Stream:
        def batch(self, number):
            made.append(number)
            if number == 13:
                raise DataError("13 is missing")
            return number

        def position(self, number):
            return divmod(number, 100)

        def prepare(self, epoch):
            made.append(f"epoch {epoch}")

    ahead = Prefetcher(Stream())
    assert ahead.batch(5) == 5
    deadline = time.monotonic() + 20
    while len(made) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(made, key=str) == sorted(["epoch 1", *range(5, 14)], key=str)
    for number in range(6, 13):
        assert ahead.batch(number) == number
    with pytest.raises(DataError, match="13 is missing"):
        ahead.batch(13)
    assert made.count(6) == 1


def test_a_run_started_on_text_resumes_from_binary_data_bit_for_bit(texts, pairs, tmp_path):
    files, tokenizer, src, tgt = texts
    tokenizer.save(tmp_path / "bpe")
    write(tmp_path / "all.en", src)
    write(tmp_path / "all.de", tgt)
    common = {"tokenizer": str(tmp_path / "bpe"), "max_length": 60, "src_tokens": 120, "tgt_tokens": 120}
    text = common | {"train_src": str(tmp_path / "all.en"), "train_tgt": str(tmp_path / "all.de")}
    disk = common | {"train_ids": str(pairs)}

    def train(directory, data, updates):
        config = tiny_config(tmp_path / directory, data=data, model={"vocab_size": 0}, updates=updates)
        Trainer(config, progress=False).run()

    train("whole", text, 12)
    train("parts", text, 7)
    train("parts", disk, 12)
    for ours, theirs in zip(final_state(tmp_path / "parts", 12), final_state(tmp_path / "whole", 12), strict=True):
        np.testing.assert_array_equal(ours, theirs)
