"""What tests of commands share: parallel text, a tokenizer, a config and a training of a second."""

from pathlib import Path

import numpy as np
import pytest
from tiny_run import write_config

from minitransformer.cli.main import main

FILES = dict(train_src="train.en", train_tgt="train.de", valid_src="val.en", valid_tgt="val.de", tokenizer="bpe.txt")
TRAINING = dict(updates=60, warmup_steps=30, log_every=10, validate_every=30, save_every=20)
ENGLISH = "one two three four five six seven eight nine".split()
GERMAN = "eins zwei drei vier fünf sechs sieben acht neun".split()


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A folder with parallel text, a tokenizer, a config and a trained run in it."""
    folder, rng = tmp_path_factory.mktemp("cli"), np.random.default_rng(0)
    for name, count in (("train", 400), ("val", 20)):
        numbers = [rng.integers(0, 9, rng.integers(1, 7)) for _ in range(count)]
        for side, words in (("en", ENGLISH), ("de", GERMAN)):
            text = "".join(" ".join(words[i] for i in line) + "\n" for line in numbers)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    write_config(
        folder / "run.toml",
        model=dict(n_layers=1, d_model=32, d_ff=64, n_heads=2),
        data={key: (folder / name).as_posix() for key, name in FILES.items()} | dict(src_tokens=256, tgt_tokens=256),
        training=TRAINING | dict(directory=(folder / "run").as_posix()),
        translation=dict(beam_size=2, max_extra=10),
    )
    texts = [str(folder / "train.en"), str(folder / "train.de")]
    assert main(["bpe", "train", *texts, "-o", str(folder / "bpe.txt"), "--vocab-size", "300"]) == 0
    assert main(["train", str(folder / "run.toml")]) == 0
    return folder
