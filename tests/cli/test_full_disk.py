"""A disk that is full: one line, exit code 2, no half-written file, and what was there before stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.data import find
from minitransformer.text import Tokenizer

pytest.importorskip("resource", reason="the system has no limit on the size of files")

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
import runpy
module = sys.argv[1] if sys.argv[1].startswith("examples.") else "minitransformer"
sys.argv = sys.argv[1:] if module == sys.argv[1] else sys.argv
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def folder(tmp_path):
    lines = [" ".join(f"größer{number * number * 7919 % 9973}" * 2 for _ in "ab") for number in range(400)]
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("".join(f"{side} {line}\n" for line in lines), encoding="utf-8")
    Tokenizer.train(lines, 300).save(tmp_path / "bpe")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "examples.wmt14.clean --src a.en --tgt a.de -o c.en c.de --processes 1",
        "examples.wmt14.clean --src a.en --tgt a.de -o old.en c.de --processes 1",
        "bpe train a.en -o old.en --vocab-size 1500 --mode words --processes 1",
        "binarize --src a.en --tgt a.de --tokenizer bpe -o ids --processes 1",
        "examples.data get multi30k --from there --to data",
    ],
    ids=lambda command: command.split(" -")[0],
)
def test_a_full_disk_leaves_everything_as_it_was(folder, command):
    (folder / "old.en").write_text("old\n")
    (folder / "there").mkdir()
    for file in find("multi30k").files:
        (folder / "there" / file.name).write_text("line\n" * 1000)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    # Without the latter, Python leaves its bytecode cut off at the limit, and no later process can import it.
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", LIMITED, *command.split()]
    run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2, run.stderr
    assert run.stderr.count("\n") == 1 and "File too large" in run.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
