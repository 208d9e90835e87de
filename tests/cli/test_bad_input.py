"""Every mistake a user can make at the command line: one clear line, exit code 2, nothing written, nothing lost."""

import errno
import os
import pickle
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from extras import need
from tiny_run import write_config

from minitransformer.cli.main import main
from minitransformer.cuda_diagnosis import cuda_trouble

CONFIG = {
    "model": dict(n_layers=1, d_model=16, d_ff=16, n_heads=2, positions="learned", max_positions=12),
    "data": dict(train_src="train.en", train_tgt="train.de", tokenizer="bpe.txt"),
    "training": dict(directory="run", updates=1),
}

NEWEST = "done/checkpoints/update_00000001.npz"


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """A folder with text, a tokenizer, a checkpoint, and damaged forms of each."""
    folder = tmp_path_factory.mktemp("bad")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_config(Path("run.toml"), **CONFIG)
        Path("train.en").write_text("a b c\nb c\n" * 20)
        Path("train.de").write_text("c b a\nc b\n" * 20)
        assert main(["bpe", "train", "train.en", "train.de", "-o", "bpe.txt", "--vocab-size", "270"]) == 0
        assert main(["train", "run.toml"]) == 0
        shutil.move("run/checkpoints/update_00000001.npz", "model.npz")
        shutil.rmtree("run")
        Path(NEWEST).parent.mkdir(parents=True)
        shutil.copy("model.npz", NEWEST)
        whole = Path("model.npz").read_bytes()
        Path("cut.npz").write_bytes(whole[: len(whole) // 2])
        Path("pickle.npz").write_bytes(pickle.dumps([]))
        Path("zip.npz").write_bytes(whole.replace(b"PK\1\2", b"PK\0\0"))  # what the list of a zip's files begins with
        np.savez("columns.npz", header=np.zeros(1, [(f"column {number}", "f4") for number in range(1000)]))
        Path("short.de").write_text("c b a\n")
        Path("empty.de").write_text("")
        Path("blank.de").write_text(" \n" * 40)
        Path("latin1.de").write_bytes(b"c b a\nk\xf6nnen\n" * 20)
        Path("cut.txt").write_text(Path("bpe.txt").read_text()[:-40])
        Path("metrics.jsonl").write_text('{"kind": "train", "update": 1}\nnot json\n')
        Path("folder").mkdir()
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch) -> Path:
    """A copy of the prepared folder, to be left as it is."""
    shutil.copytree(prepared, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


TRAIN = "train run.toml"
TRANSLATE = "translate --checkpoint model.npz"
EVALUATE = "evaluate --checkpoint model.npz --src train.en"
ATTENTION = "plot attention --checkpoint model.npz --src 'a b' --tgt 'b a'"
ONE_OF_THE_INPUTS = "output must not be one of the inputs, got"

# The command; a part of the line that it prints; its standard input, where that matters.
CASES = [
    # Text
    (
        f"{TRAIN} --set data.train_tgt=short.de",
        "train.en and short.de: must have the same number of lines, got 40 and 1",
    ),
    (f"{TRAIN} --set data.train_tgt=empty.de", "empty.de: must have at least one line"),
    (f"{TRAIN} --set data.train_tgt=latin1.de", "latin1.de:2: must be UTF-8, got byte 0xf6"),
    (f"{TRAIN} --set data.train_src=none.en", "directory; a relative path starts in the current folder, also in a c"),
    (
        TRANSLATE,
        "line 2 must have at most 11 tokens (model.max_positions = 12, EOS takes one), got at least 1",
        b"a\n" + b"a b c " * 10 + b"\n",
    ),
    (TRANSLATE, "standard input:1: must be UTF-8, got byte 0xf6", b"\xef\xbb\xbfk\xf6nnen\n"),
    # Configs
    ("train none.toml", "none.toml: cannot be read: No such file"),
    ("train \udcff.toml", r"\udcff.toml: cannot be read"),
    ("train 'a\nb.toml'", "minitransformer train: a b.toml: cannot be read"),
    (f"{TRAIN} --set model.layers=2", "unknown key 'layers' in [model]; known: kind"),
    (
        f"plan run.toml --set model.d_model={2**31 - 2}",
        "model: a parameter must have at most 2^60 values, got the shape (2147483646, ",
    ),
    # Vocabularies
    (f"{TRAIN} --set data.tokenizer=", "data.tokenizer must be a path"),
    (f"{TRAIN} --set data.tokenizer=cut.txt", "cut.txt:"),
    (f"{TRAIN} --set model.vocab_size=100", "model.vocab_size must be"),
    (f"{TRAIN} --set model.src_vocab_size=9 --set model.tie_embeddings=false", "model.src_vocab_size must be left out"),
    ("bpe train train.en -o b.txt --vocab-size 100", "vocab_size must be at least 260"),
    (f"bpe train train.en -o b.txt --vocab-size {10**30}", f"vocab_size must be at most 2147483647, got {10**30}"),
    # Checkpoints
    ("translate --checkpoint pickle.npz", "(BadZipFile: File is not a zip file); use another one"),
    ("translate --checkpoint columns.npz", "large and may not be safe to load securely.); use another one"),
    ("translate --checkpoint none.npz", "none.npz must be a file that training wrote"),
    (f"translate --model {'x' * 300}", "argument --model: load: xxx"),
    ("import zip.npz -o model2.npz", "zip.npz: must be an .npz of arrays, got a damaged or foreign file"),
    ("import none -o model2.npz", "SOURCE must be a folder or an ordinary file, got none, which does not exist"),
    ("import /dev/null -o model2.npz", "SOURCE must be a folder or an ordinary file, got the device or pipe /dev/null"),
    ("average --last 3 folder -o mean.npz", "folder must be the training.directory of a run, got none with checkpo"),
    ("average --last 3 done -o mean.npz", "got 1, asked 3; ask for fewer"),
    ("average --last 0 folder -o mean.npz", "argument --last: must be an integer from 1 to 999999999, got '0'"),
    ("average --last 3 a b -o mean.npz", "--last must be used with one"),
    # Options
    (f"{TRANSLATE} --n-best 9", "--n-best must be from 1 to the beam size 4, got 9"),
    (f"{ATTENTION} -o a.png --layer 2", "--layer must be from 1 to 1, got 2"),
    (f"{ATTENTION} --tgt '{'b ' * 300}' -o a.png", "--tgt must have at most 250 tokens, got"),
    (f"{ATTENTION} -o a.png --head 3", "head must be from 1 to 2, got 3"),
    (f"{ATTENTION} -o a.gif", "output must end in .png, .svg, .html, got 'a.gif'"),
    ("plot curves metrics.jsonl -o a", "output must end in .png, .svg, got 'a'"),
    (f"{EVALUATE} --ref train.de --ablation", "model.npz must be the training.directory of a run, got a file"),
    (f"{EVALUATE} --ref blank.de --ablation", "blank.de: the references must have at least one word, got none"),
    (f"{EVALUATE} --ref train.de --last 2", "--last must be used with --ablation"),
    ("plot curves metrics.jsonl -o a.png", "metrics.jsonl:2 must be a JSON object"),
    ("plot curves folder -o a.png", "folder/metrics.jsonl cannot be read: No such file"),
    ("plot curves a=metrics.jsonl a=b.jsonl -o a.png", "every run must have its own label"),
    ("trian", "invalid choice: 'trian'"),
    ("doctor 'a\nb\x1b[31m'", r"unrecognized arguments: a b\x1b[31m; see"),
    ("", "the following arguments are required: COMMAND; see minitransformer --help"),
    ("train", "the following arguments are required: CONFIG; see minitransformer train --help"),
    (f"{TRANSLATE} --alpha much", "argument --alpha: invalid float value: 'much'"),
    ("bpe train train.en -o b --vocab 300", "unrecognized arguments: --vocab"),
    # Outputs
    (f"average {NEWEST} model.npz -o folder/../model.npz", f"{ONE_OF_THE_INPUTS} folder/../model.npz"),
    (f"average --last 1 done -o {NEWEST}", "must not be one of the inputs"),
    (f"{EVALUATE} --ref train.de --output train.en", f"{ONE_OF_THE_INPUTS} train.en"),
    (f"evaluate --checkpoint done --src train.en --ref train.de --output {NEWEST}", f"{ONE_OF_THE_INPUTS} {NEWEST}"),
    ("plot curves a=metrics.jsonl -o metrics.jsonl", f"{ONE_OF_THE_INPUTS} metrics.jsonl"),
    (f"{ATTENTION} -o model.npz", f"{ONE_OF_THE_INPUTS} model.npz"),
    ("average model.npz -o none/mean.npz", "output must be in an existing folder"),
    ("average model.npz cut.npz -o bpe.txt", "cut.npz must be a whole checkpoint"),
    ("bpe train train.en -o folder", "output must be an ordinary file, got the folder folder"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_bad_input_gets_one_line_and_exit_code_2_and_changes_no_file(case, folder, type_in, capsys):
    command, message, *stdin = case
    if command.startswith("plot"):
        need("matplotlib")
    if command.startswith("evaluate"):
        need("sacrebleu")
    type_in(stdin[0] if stdin else b"a b\n")
    before = contents(folder)
    assert main(shlex.split(command)) == 2
    error = capsys.readouterr().err
    assert error.startswith("minitransformer") and error.endswith("\n")
    assert error.count("\n") == 1, error
    assert message in error
    assert contents(folder) == before


@pytest.mark.parametrize("command", [TRAIN, TRANSLATE])
def test_a_gpu_that_is_not_there_gets_the_reason_and_the_remedy(command, folder, type_in, refused):
    if cuda_trouble() is None:
        pytest.skip("this machine has a GPU that works")
    type_in(b"a b\n")
    refused(main([*shlex.split(command), "--device", "cuda"]), "device cuda: ", "--device cpu")


def test_a_full_disk_does_not_take_the_scores_along(folder, monkeypatch, capsys):
    need("sacrebleu")

    def write(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("minitransformer.cli.evaluate.write_text", write)
    assert main(shlex.split(f"{EVALUATE} --ref train.de --output out")) == 2
    output, error = capsys.readouterr()
    assert output.startswith("BLEU ") and "out: cannot be written: No space left on device; make room on it" in error


def test_a_name_of_control_characters_does_not_reach_the_terminal(folder, capsys):
    name = "a\x1b[31m\nb"
    for argv in (["average", "model.npz", "-o"], ["bpe", "train", "train.en", "--vocab-size", "270", "-o"]):
        assert main([*argv, name]) == 0 and Path(name).exists()
    assert main(["train", "run.toml", "--set", "training.directory=a\x1b[31m"]) == 0
    output, error = capsys.readouterr()
    assert "\x1b[31m" not in output + error and output.count("\n") == 3
    assert output.startswith(r"a\x1b[31m b: mean of 1") and r"a\x1b[31m: 1 updates, done" in error
