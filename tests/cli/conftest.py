"""Runs that tests of commands share: parallel text, a tokenizer, a config and a training of a second."""

from pathlib import Path

import numpy as np
import pytest

from minitransformer.cli.main import main

CONFIG = """
[model]
n_layers = 1
d_model = 32
{1}
[data]
train_src = "{0}/train.en"
train_tgt = "{0}/train.de"
valid_src = "{0}/val.en"
valid_tgt = "{0}/val.de"
tokenizer = "{0}/bpe.txt"
src_tokens = 256
tgt_tokens = 256
[training]
directory = "{0}/run"
updates = 60
micro_batches = {2}
warmup_steps = 30
log_every = 10
validate_every = 30
save_every = 20
[translation]
beam_size = 2
max_extra = 10
"""
ENGLISH = "one two three four five six seven eight nine".split()
GERMAN = "eins zwei drei vier fünf sechs sieben acht neun".split()


def trained(folder: Path, model: str, micro_batches: int) -> Path:
    """The folder, with parallel text, a tokenizer, a config and a trained run in it."""
    rng = np.random.default_rng(0)
    for name, count in (("train", 400), ("val", 20)):
        numbers = [rng.integers(0, 9, rng.integers(1, 7)) for _ in range(count)]
        for side, words in (("en", ENGLISH), ("de", GERMAN)):
            text = "".join(" ".join(words[i] for i in line) + "\n" for line in numbers)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    (folder / "run.toml").write_text(CONFIG.format(folder.as_posix(), model, micro_batches), encoding="utf-8")
    texts = [str(folder / "train.en"), str(folder / "train.de")]
    assert main(["bpe", "train", *texts, "-o", str(folder / "bpe.txt"), "--vocab-size", "300"]) == 0
    assert main(["train", str(folder / "run.toml")]) == 0
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("cli"), "d_ff = 64\nn_heads = 2", 1)


@pytest.fixture(scope="session")
def recurrent_run(tmp_path_factory) -> Path:
    model = 'kind = "recurrent"\nattention = "additive"\ndtype = "float64"'
    return trained(tmp_path_factory.mktemp("recurrent"), model, 2)
