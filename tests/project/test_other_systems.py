"""The package on imitated systems that lack what Linux has: every module, and the commands from text to translation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import write_config

TESTS = Path(__file__).parents[1]
SYSTEMS = ("darwin", "win32")
SIDES = ("train_src", "train_tgt", "valid_src", "valid_tgt")
TINY = {
    "model": dict(n_layers=1, d_model=16, d_ff=32, n_heads=2),
    "data": dict.fromkeys(SIDES, "train.txt") | dict(tokenizer="bpe", src_tokens=64, tgt_tokens=64),
    "training": dict(directory="run", updates=6, micro_batches=2, threads=2, save_every=2, validate_every=3)
    | dict(keep_checkpoints=2),
}
IMPORT_ALL = """
import importlib, pkgutil, sys, minitransformer
for module in pkgutil.walk_packages(minitransformer.__path__, "minitransformer."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(sys.platform, len(sys.modules))
"""


def python(system: str, folder: Path, *words: str, sent: str = "") -> str:
    """What ``python WORDS`` prints in ``folder`` on this imitated system; it must end with exit code 0."""
    variables = {
        "PYTHONPATH": os.pathsep.join([str(TESTS / "other_system"), str(TESTS.parent)]),
        "MINITRANSFORMER_TEST_SYSTEM": system,
        "PYTHONWARNDEFAULTENCODING": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    options = {"input": sent.encode(), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": 120}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=os.environ | variables, **options)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux imitates other systems"),
    pytest.mark.parametrize("system", SYSTEMS),
]


def test_every_module_can_be_imported(system, tmp_path):
    assert python(system, tmp_path, "-c", IMPORT_ALL).startswith(system)


def test_a_model_is_trained_resumed_averaged_translates_and_is_trained_by_ranks(system, tmp_path):
    (tmp_path / "train.txt").write_text("ein Wort für Ωmega\nund zwei\n" * 20, encoding="utf-8")
    write_config(tmp_path / "tiny.toml", **TINY)

    def command(*words: str, **options: str) -> str:
        return python(system, tmp_path, "-m", "minitransformer", *words, **options)

    command("bpe", "train", "train.txt", "-o", "bpe", "--vocab-size", "290")
    assert "6 updates, done" in command("train", "tiny.toml")
    command("train", "tiny.toml", "--set", "training.updates=9", "--set", "training.keep_checkpoints=1")
    command("average", "--last", "1", "run", "-o", "mean.npz")
    out = command("translate", "--checkpoint", "mean.npz", sent="ein Wort\n\nzwei\n")
    assert out.count("\n") == 3 and "\r" not in out
    command("binarize", "--src", "train.txt", "--tgt", "train.txt", "--tokenizer", "bpe", "-o", "ids")
    ids = ["--set", 'data.train_ids="ids"', "--set", 'data.train_src=""', "--set", 'data.train_tgt=""']
    ids += ["--set", "training.threads=1", "--set", 'training.directory="ranks"']
    assert "6 updates, done" in command("launch", "-n", "2", "--", "train", "tiny.toml", *ids)
    assert "Python" in command("doctor")
