"""Every command on a recurrent model: a run from two text files, in one process and on two ranks."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_run import final_state

from minitransformer.cli.main import main

CONFIG = """
[model]
kind = "recurrent"
attention = "additive"
n_layers = 1
d_model = 32
dtype = "float64"
[data]
train_src = "{0}/train.src"
train_tgt = "{0}/train.tgt"
valid_src = "{0}/train.src"
valid_tgt = "{0}/train.tgt"
tokenizer = "{0}/bpe.txt"
src_tokens = 128
tgt_tokens = 128
[training]
directory = "{0}/run"
updates = 60
micro_batches = 2
warmup_steps = 30
validate_every = 30
save_every = 20
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Parallel text, a tokenizer, a config and a trained run."""
    folder, rng = tmp_path_factory.mktemp("recurrent"), np.random.default_rng(0)
    numbers = [rng.integers(0, 4, rng.integers(1, 5)) for _ in range(100)]
    for side, words in (("src", "one two three four".split()), ("tgt", "eins zwei drei vier".split())):
        (folder / f"train.{side}").write_text("".join(" ".join(words[i] for i in line) + "\n" for line in numbers))
    (folder / "run.toml").write_text(CONFIG.format(folder.as_posix()))
    texts = [str(folder / f"train.{side}") for side in ("src", "tgt")]
    assert main(["bpe", "train", *texts, "-o", str(folder / "bpe.txt"), "--vocab-size", "290"]) == 0
    assert main(["train", str(folder / "run.toml")]) == 0
    return folder


def test_the_commands_plan_average_translate_evaluate_and_plot(folder, monkeypatch, capsys):
    mean, src, ref = (str(folder / name) for name in ("mean.npz", "train.src", "train.tgt"))
    model = ["--checkpoint", mean, "--device", "cpu"]
    assert main(["plan", str(folder / "run.toml")]) == 0
    assert "24,544 parameters" in capsys.readouterr().out
    assert main(["average", "--last", "2", str(folder / "run"), "-o", mean]) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one two\n\nfour\n")))
    assert main(["translate", *model]) == 0
    assert capsys.readouterr().out.count("\n") == 4  # mean.npz's path, then three lines
    assert main(["evaluate", *model, "--src", src, "--ref", ref, "--beam-size", "2"]) == 0
    plot = ["plot", "attention", *model, "--src", "one two three", "-o", str(folder / "map.png")]
    assert main(plot) == 0 and (folder / "map.png").read_bytes()[:4] == b"\x89PNG"
    assert main([*plot, "--kind", "encoder"]) == 2
    message = "the model must have attention encoder 1, got cross 1; change --kind or --layer"
    assert message in capsys.readouterr().err


def test_two_ranks_train_what_one_process_trains(folder, relative_error):
    other = ["--set", f"training.directory={folder}/ranks"]
    command = [sys.executable, "-m", "minitransformer", "launch", "-n", "2", "--", "train", str(folder / "run.toml")]
    done = subprocess.run([*command, *other], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    one, two = (final_state(folder / name, 60)[0] for name in ("run", "ranks"))
    assert relative_error(two, one) < 1e-8
