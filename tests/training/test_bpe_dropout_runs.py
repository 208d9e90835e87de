"""Training with data.bpe_dropout: the same bits in two parts, plain validation, what is refused."""

import base64
from pathlib import Path

import numpy as np
import pytest
from tiny_run import assert_same_state, final_state, tiny_trainer

from minitransformer.config import DataConfig
from minitransformer.errors import CheckpointError, ConfigError
from minitransformer.text import PieceTokenizer, Tokenizer
from minitransformer.text.binarize import binarize
from minitransformer.training import Corpus

RNG = np.random.default_rng(8)
LINES = [" ".join(RNG.choice(["bushes", "dogs", "a", "running"], RNG.integers(1, 7))) for _ in range(240)]
TOKENIZER = Tokenizer.train(LINES, 50, mode="words")
TRAIN, VALID = (LINES[:100], LINES[100:200]), (LINES[200:220], LINES[220:])
CHANGES = {"model": {"vocab_size": 0}, "updates": 24, "validate_every": 24}


def text_corpus():
    return Corpus.from_lines(TOKENIZER, TRAIN, VALID)


def trainer_with(directory, p_drop, corpus=None, **changes):
    return tiny_trainer(directory, corpus or text_corpus(), data={"bpe_dropout": p_drop}, **CHANGES | changes)


def test_a_run_in_two_parts_has_the_bits_of_one(tmp_path):
    trainer_with(tmp_path / "whole", 0.2).run()
    part = trainer_with(tmp_path / "parts", 0.2, updates=17)
    part.run()
    assert part.batches.epoch(17) > 1
    trainer_with(tmp_path / "parts", 0.2).run()
    assert_same_state(tmp_path / "parts", tmp_path / "whole", 24)
    trainer_with(tmp_path / "plain", 0.0).run()
    assert not np.array_equal(final_state(tmp_path / "plain", 24)[0], final_state(tmp_path / "whole", 24)[0])


def test_validation_is_plain_and_lengths_fit_learned_positions(tmp_path):
    model = {"vocab_size": 0, "positions": "learned", "max_positions": text_corpus().longest()}
    one, other = (trainer_with(tmp_path / str(p), p, model=model, updates=6) for p in (0.0, 0.9))
    for batch, same in zip(one.validation.batches, other.validation.batches, strict=True):
        assert np.array_equal(batch.src, same.src) and np.array_equal(batch.tgt_out, same.tgt_out)
    other.run()


def test_lines_fit_every_budget_in_every_epoch_and_are_drawn_by_the_seed_of_the_run(tmp_path):
    corpus, longest = text_corpus(), max(len(ids) + 1 for side in text_corpus().train for ids in side)
    for name in ("src_tokens", "tgt_tokens", "max_length"):
        config = tiny_trainer(tmp_path / name, corpus, data={"bpe_dropout": 0.9, name: longest}, **CHANGES).config
        stream = corpus.stream(config)
        lengths = [len(ids) + 1 for epoch in range(3) for ids in stream.find(epoch * stream.batches_per_epoch)[0].src]
        assert max(lengths) <= longest
    one, other = (corpus.stream(trainer_with(tmp_path / s, 0.2, seed=int(s)).config).find(0)[0] for s in "12")
    assert one.src != other.src and one.tgt != other.tgt


def test_a_run_does_not_resume_with_another_probability(tmp_path):
    trainer_with(tmp_path, 0.2, updates=2).run()
    with pytest.raises(CheckpointError, match=r"data.bpe_dropout must be 0.2 to resume .*, got 0.3"):
        trainer_with(tmp_path, 0.3, updates=2)


def test_text_is_read_for_it_and_ids_and_tokenizers_without_merges_are_refused(tmp_path):
    paths = {f"train_{name}": str(tmp_path / name) for name in ("src", "tgt")} | {"tokenizer": str(tmp_path / "bpe")}
    for path, lines in zip(paths.values(), TRAIN, strict=False):
        Path(path).write_text("\n".join(["", *lines]) + "\n", encoding="utf-8")
    TOKENIZER.save(paths["tokenizer"])
    assert Corpus.from_files(DataConfig(**paths, bpe_dropout=0.1)).train_lines == TRAIN  # without the empty line
    assert Corpus.from_files(DataConfig(**paths)).train_lines is None
    binarize(TOKENIZER, [(paths["train_src"], paths["train_tgt"])], tmp_path / "ids")
    from_ids = Corpus.from_binary(TOKENIZER, tmp_path / "ids")
    model = base64.b64decode("CgoKAWEVAAAAABgB")  # one piece, "a"
    of_pieces = Corpus.from_lines(PieceTokenizer([model, model], [["a"], ["a"]]), (["a a"], ["a"]))
    for corpus, got in ((from_ids, "training pairs that are ids already"), (of_pieces, "a tokenizer of pieces, which")):
        with pytest.raises(ConfigError, match=f"must be 0 except for text with a BPE tokenizer, got 0.1 and {got}"):
            trainer_with(tmp_path / "run", 0.1, corpus)
