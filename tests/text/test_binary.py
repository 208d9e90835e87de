"""Binarized pairs: they equal the pairs encoded from text, and a partial folder is never left."""

import os

import pytest
from tiny_run import assert_same_state, tiny_config

from minitransformer.config import UNK, DataConfig
from minitransformer.errors import ConfigError, DataError
from minitransformer.text import Tokenizer, encode_parallel
from minitransformer.text import processes as text_processes
from minitransformer.text.binarize import binarize
from minitransformer.text.binary import fingerprint_of, lengths_of, open_pairs
from minitransformer.text.pretokenizers import END
from minitransformer.training import Corpus, Trainer


def equal(mapped, lists):
    return len(mapped) == len(lists) and all(list(a) == list(b) for a, b in zip(mapped, lists, strict=True))


def test_binarized_pairs_are_those_of_the_text(texts, pairs):
    _, tokenizer, src, tgt = texts
    expected = encode_parallel(tokenizer, src, tgt, max_length=60)
    header, found_src, found_tgt = open_pairs(pairs)
    assert equal(found_src, expected.src) and equal(found_tgt, expected.tgt)
    assert (header.n_empty, header.n_long) == (expected.n_empty, expected.n_long)
    assert min(header.n_empty, header.n_long) > 0
    assert "longer than 60 tokens" in Corpus.from_binary(tokenizer, pairs).left_out()
    assert header.n_tgt_tokens == sum(map(len, expected.tgt))
    assert lengths_of(found_src).tolist() == [len(ids) for ids in expected.src]
    assert header.fingerprint == fingerprint_of((expected.src, expected.tgt))
    assert fingerprint_of([[[4, 5], [6]]]) != fingerprint_of([[[4], [5, 6]]])


def test_any_number_of_processes_writes_the_same_bytes(texts, pairs, tmp_path, monkeypatch):
    files, tokenizer, _, _ = texts
    monkeypatch.setattr(text_processes, "CHUNK_LINES", 70)
    binarize(tokenizer, files, tmp_path / "again", max_length=60, processes=2)
    for name in os.listdir(pairs):
        assert (tmp_path / "again" / name).read_bytes() == (pairs / name).read_bytes(), name


@pytest.mark.parametrize(("n", "size"), [(65_532, 2), (65_533, 4)])
def test_large_vocabularies_keep_their_ids(tmp_path, n, size):
    """The largest that 16 bits hold, and the smallest that they do not."""
    files = (tmp_path / "a.en", tmp_path / "a.de")
    for path in files:
        path.write_text(f"{chr(0x10000 + n - 1)} x\n", encoding="utf-8")
    base = [chr(0x10000 + number) + END for number in range(n)]
    tokenizer = Tokenizer("words", base, [])
    binarize(tokenizer, [files], tmp_path / "ids")
    _, found, _ = open_pairs(tmp_path / "ids")
    assert found[0].tolist() == [4 + n - 1, UNK]
    assert (tmp_path / "ids" / "src.ids").stat().st_size == size * 2


def test_a_text_that_cannot_be_encoded_leaves_no_folder(texts, tmp_path):
    files, tokenizer, _, _ = texts
    short = tmp_path / "short.de"
    short.write_text("a\n" * 7)
    (tmp_path / "empty.en").write_text("\n\n")
    for bad in ([*files, (files[0][0], short)], [(tmp_path / "none.en", short)], [(tmp_path / "empty.en",) * 2]):
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(DataError):
            binarize(tokenizer, bad, tmp_path / "ids")
        assert sorted(os.listdir(tmp_path)) == before


def test_a_partial_folder_is_replaced_and_a_complete_one_is_not(texts, pairs, tmp_path):
    files, tokenizer, _, _ = texts
    left_behind = tmp_path / f".ids.{'0' * 16}.partial"
    left_behind.mkdir()
    (left_behind / "src.ids").write_bytes(b"junk")
    binarize(tokenizer, files, tmp_path / "ids", max_length=60)
    assert os.listdir(tmp_path) == ["ids"]
    (tmp_path / "link").symlink_to("nowhere")
    for there in ("ids", "link"):
        with pytest.raises(DataError, match="must not exist yet"):
            binarize(tokenizer, files, tmp_path / there)
    assert open_pairs(tmp_path / "ids")[0] == open_pairs(pairs)[0]


def test_ids_and_text_together_are_refused():
    with pytest.raises(ConfigError, match="data.train_ids must stand alone"):
        Corpus.from_files(DataConfig(train_ids="ids", train_src="a.en"))


def test_a_run_started_on_text_resumes_from_binary_data_bit_for_bit(texts, pairs, tmp_path):
    files, tokenizer, src, tgt = texts
    tokenizer.save(tmp_path / "bpe")
    for name, lines in (("all.en", src), ("all.de", tgt)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    common = {"tokenizer": str(tmp_path / "bpe"), "max_length": 60, "src_tokens": 120, "tgt_tokens": 120}
    text = common | {"train_src": str(tmp_path / "all.en"), "train_tgt": str(tmp_path / "all.de")}
    disk = common | {"train_ids": str(pairs)}

    def train(directory, data, updates):
        config = tiny_config(tmp_path / directory, data=data, model={"vocab_size": 0}, updates=updates)
        Trainer(config, progress=False).run()

    train("whole", text, 12)
    train("parts", text, 7)
    train("parts", disk, 12)
    assert_same_state(tmp_path / "parts", tmp_path / "whole", 12)
