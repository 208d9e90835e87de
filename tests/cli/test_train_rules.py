"""``train --rules``: the user's functions compute rules and are recorded by name and hash; no file can ask for them."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from minitransformer.checkpoints import load_checkpoint
from minitransformer.cli.main import main
from minitransformer.cli.rules import rules_of
from minitransformer.config import Config
from minitransformer.errors import ConfigError

PROGRAM = """
from contextlib import contextmanager
from pathlib import Path

from minitransformer.errors import ConfigError
from minitransformer.kernels import using_kernels
from minitransformer.ops.registry import RULES
from minitransformer.ops.rule import Rule

Path(__file__).with_name("was run").touch()


@contextmanager
def own_rules(folder, say):
    factor = float((folder / "factor.txt").read_text())
    if factor < 0:
        raise ConfigError("the factor must be positive")

    def forward(x, *, mask=None):
        y, saved = RULES["softmax"].forward(x, mask=mask)
        return factor * y, saved

    with using_kernels({("softmax", "numpy"): Rule("softmax", forward, RULES["softmax"].backward)}):
        say(f"softmax, {factor} times")
        yield {"softmax": str(factor)}
"""


@pytest.fixture
def place(run, tmp_path, monkeypatch):
    """A folder with the files of a run, and in it ``own`` with a program beside it."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.de", "val.en", "val.de", "bpe.txt"):
        shutil.copy(run / name, tmp_path)
    text = (run / "run.toml").read_text().replace(run.as_posix(), tmp_path.as_posix())
    Path("run.toml").write_text(text.replace("updates = 60", "updates = 2").replace("validate_every = 30", ""))
    Path("rules.py").write_text(PROGRAM)
    Path("own").mkdir()
    Path("own/factor.txt").write_text("0.5")
    return tmp_path


def train(*options: str) -> int:
    return main(["train", "run.toml", *options])


def last_loss() -> float:
    return json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])["loss"]


def test_the_functions_compute_and_the_run_resumes_with_them_alone(place, capsys):
    assert train("--set", "training.log_every=1") == 0
    plain = last_loss()
    shutil.rmtree("run")
    assert train("--set", "training.log_every=1", "--rules", "own") == 0
    assert "minitransformer train: softmax, 0.5 times\n" in capsys.readouterr().err
    assert last_loss() != pytest.approx(plain, rel=1e-6)
    newest = sorted(Path("run/checkpoints").iterdir())[-1]
    assert load_checkpoint(newest).progress["rules"] == {"softmax": "0.5"}
    assert train("--set", "training.updates=3", "--rules", "own") == 0
    Path("own/factor.txt").write_text("0.25")
    for options in ([], ["--rules", "own"]):
        capsys.readouterr()
        assert train("--set", "training.updates=4", *options) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "softmax" not in line]
        assert "the set of --rules must be the one of " in line and "to resume, got another" in line


def test_no_file_can_ask_for_rules(place, capsys):
    """What runs them is the option alone: a checkpoint holds names and hashes, a config has no key for a folder."""
    assert train("--rules", "own") == 0
    Path("was run").unlink()
    model = str(sorted(Path("run/checkpoints").iterdir())[-1])
    assert main(["average", model, "-o", "mean.npz"]) == 0
    assert train() == 2
    for key in ("training.rules", "execution.rules", "model.rules"):
        capsys.readouterr()
        assert train("--set", f'{key}="own"') == 2
        assert "unknown key" in capsys.readouterr().err
    shutil.rmtree("own")
    assert main(["evaluate", "--checkpoint", model, "--src", "val.en", "--ref", "val.de"]) == 0
    assert not Path("was run").exists()


@pytest.mark.parametrize(
    ("options", "program", "factor", "words"),
    [
        (["--rules", "nowhere"], PROGRAM, "1", "--rules must name a folder, got nowhere"),
        (["--rules", "own"], None, "1", "a folder with a rules.py beside it, as lessons/mine has, got own"),
        (["--rules", "own"], "x = 1", "1", "must define own_rules, got KeyError: 'own_rules'"),
        (["--rules", "own"], "def own_rules(:", "1", "must define own_rules, got SyntaxError: "),
        (["--rules", "own"], "raise SystemExit(0)", "1", "must define own_rules, got SystemExit: 0"),
        (["--rules", "own"], PROGRAM, "-1", "the factor must be positive"),
        (["--rules", "own", "--set", "training.micro_batches=2"], PROGRAM, "1", "training.threads must be 1 to use it"),
    ],
)
def test_what_cannot_be_used_is_one_line(options, program, factor, words, place, refused):
    if program is None:
        Path("rules.py").unlink()
    else:
        Path("rules.py").write_text(program)
    Path("own/factor.txt").write_text(factor)
    refused(train(*options), words)
    assert not Path("run/checkpoints").exists()


def test_several_ranks_and_gpus_are_refused(place, refused, monkeypatch):
    message = "^--rules: there must be one rank, got 2$"
    with pytest.raises(ConfigError, match=message), rules_of(Path("own"), Config(), 2, print):
        pass
    monkeypatch.setattr("minitransformer.cli.rules.load_array_module", lambda device: SimpleNamespace())
    refused(train("--rules", "own"), "execution.device must be cpu, got a GPU")
