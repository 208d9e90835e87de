"""The package on imitated systems that lack what Linux has: every module, and the commands from text to translation."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SYSTEMS = ("darwin", "win32")
TINY = """\
model = {n_layers = 1, d_model = 16, d_ff = 32, n_heads = 2}
[data]
train_src = "train.txt"
train_tgt = "train.txt"
valid_src = "train.txt"
valid_tgt = "train.txt"
tokenizer = "bpe"
src_tokens = 64
tgt_tokens = 64
[training]
directory = "run"
updates = 6
micro_batches = 2
threads = 2
save_every = 2
validate_every = 3
keep_checkpoints = 2
"""
IMPORT_ALL = """
import importlib, pkgutil, sys, minitransformer
for module in pkgutil.walk_packages(minitransformer.__path__, "minitransformer."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(sys.platform, len(sys.modules))
"""


def start(system: str, folder: Path, *words: str, **options: object) -> subprocess.Popen:
    """``python WORDS`` in ``folder`` on this imitated system."""
    variables = {
        "PYTHONPATH": os.pathsep.join([str(TESTS / "other_system"), str(TESTS.parent)]),
        "MINITRANSFORMER_TEST_SYSTEM": system,
        "PYTHONWARNDEFAULTENCODING": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([sys.executable, *words], cwd=folder, env=os.environ | variables, **output | options)


def python(system: str, folder: Path, *words: str, sent: str = "") -> str:
    """What it prints; it must end with exit code 0."""
    process = start(system, folder, *words, stdin=subprocess.PIPE)
    text = process.communicate(sent.encode(), timeout=120)[0].decode()
    assert process.returncode == 0, text
    return text


def process_tree(pid: int) -> list[int]:
    """The process and its descendants."""
    children = []
    with suppress(OSError):  # it has just ended
        children = [path.read_text(encoding="ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(process for task in children for child in task for process in process_tree(int(child)))]


def write_text_and_config(folder: Path) -> None:
    (folder / "train.txt").write_text("ein Wort für Ωmega\nund zwei\n" * 20, encoding="utf-8")
    (folder / "tiny.toml").write_text(TINY, encoding="utf-8")


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux imitates other systems"),
    pytest.mark.parametrize("system", SYSTEMS),
]


def test_every_module_can_be_imported(system, tmp_path):
    assert python(system, tmp_path, "-c", IMPORT_ALL).startswith(system)


def test_a_model_is_trained_resumed_averaged_and_translates(system, tmp_path):
    write_text_and_config(tmp_path)

    def command(*words: str, **options: str) -> str:
        return python(system, tmp_path, "-m", "minitransformer", *words, **options)

    command("bpe", "train", "train.txt", "-o", "bpe", "--vocab-size", "290")
    assert "6 updates, done" in command("train", "tiny.toml")
    command("train", "tiny.toml", "--set", "training.updates=9", "--set", "training.keep_checkpoints=1")
    command("average", "--last", "1", "run", "-o", "mean.npz")
    out = command("translate", "--checkpoint", "mean.npz", sent="ein Wort\n\nzwei\n")
    assert out.count("\n") == 3 and "\r" not in out
    assert "Python" in command("doctor")


def test_ranks_train_on_token_ids_and_ctrl_c_ends_them_with_a_checkpoint(system, tmp_path):
    write_text_and_config(tmp_path)
    ids = ["--set", 'data.train_ids="ids"', "--set", 'data.train_src=""', "--set", 'data.train_tgt=""']
    for words in (
        ["bpe", "train", "train.txt", "-o", "bpe", "--vocab-size", "290"],
        ["binarise", "--src", "train.txt", "--tgt", "train.txt", "--tokenizer", "bpe", "-o", "ids"],
    ):
        python(system, tmp_path, "-m", "minitransformer", *words)
    train = ["train", "tiny.toml", *ids, "--set", "training.threads=1", "--set", "training.updates=1000000"]
    with start(system, tmp_path, "-m", "minitransformer", "launch", "-n", "2", "--", *train) as launch:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("run/checkpoints/*.npz")) and time.monotonic() < until:
            time.sleep(0.05)
        # A console of Windows sends Ctrl-C to all its processes, a terminal only to those of launch's own session.
        for pid in process_tree(launch.pid) if system == "win32" else [launch.pid]:
            os.kill(pid, signal.SIGINT)
        text = launch.communicate(timeout=60)[0].decode()
    assert launch.returncode == 130 and "stopped; the same command resumes" in text, text
    assert "Traceback" not in text
