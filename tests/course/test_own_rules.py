"""The engine trains with the student's functions: each is called, none changes what is learned, bad ones are named."""

import re
import shutil

import numpy as np
import pytest
from kept_files import kept_file
from tiny_run import metrics_of, tiny_config, tiny_corpus

from course.exercise import LESSONS
from course.number_words import write_task
from course.rules import NAMES, own_rules
from minitransformer.cli.main import main
from minitransformer.config import ModelConfig
from minitransformer.errors import ConfigError
from minitransformer.models import Transformer
from minitransformer.optim import Adam
from minitransformer.text import pad_batch
from minitransformer.training import Corpus, Trainer

WEIGHTS = "04_attention.weights"
WRONG_BY_HAND = kept_file(WEIGHTS, "def f(q, k, mask):\n    return 2.0 * right(q, k, mask)\n")
SLOW = kept_file(WEIGHTS, "def f(q, k, mask):\n    return [right(q, k, mask) for _ in range(100)][0]\n")
WRONG_FOR_BATCHES = kept_file(
    "11_training.dropout", "def f(x, *given):\n    return right(x, *given) * (2 if x.ndim > 1 else 1)\n"
)


def weights_with(rest: str) -> str:
    """A file of weights that are right, but for what stands behind them."""
    return kept_file(WEIGHTS, f"def f(q, k, mask):\n    return right(q, k, mask){rest}\n")


@pytest.fixture
def mine(tmp_path):
    """A folder with every function that has a place in the engine, beside the program that knows them."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(kept_file(name))
    shutil.copy(LESSONS / "rules.py", tmp_path)
    return folder


def said_with(mine) -> list[str]:
    lines = []
    with own_rules(mine, lines.append):
        pass
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("p_drop", [0.0, 0.1])
def test_the_losses_are_those_of_the_engine_and_every_function_is_called(p_drop, mine, tmp_path):
    model = {"dtype": "float64", "d_model": 32} | dict.fromkeys(("p_drop", "p_drop_attention", "p_drop_ffn"), p_drop)
    settings = {"model": model, "kernels": "simple", "micro_batches": 1, "updates": 200, "log_every": 1}
    settings |= {"warmup_steps": 100, "lr_scale": 0.5, "validate_every": 0, "save_every": 0}
    sequences = tiny_corpus().train[0]
    copying, lines = Corpus((sequences, sequences)), []

    def losses(directory, rules) -> list[float]:
        Trainer(tiny_config(directory, **settings), copying, progress=False, rules=rules).run()
        return [line["loss"] for line in metrics_of(directory) if line["kind"] == "train"]

    plain = losses(tmp_path / "plain", None)
    with own_rules(mine, lines.append) as hashes:
        own = losses(tmp_path / "own", hashes)
    assert len(own) == 200 and own[-1] < 0.8 * own[0]
    np.testing.assert_allclose(own, plain, rtol=0, atol=1e-9)
    assert sorted(hashes) == NAMES and lines[0] == f"yours: {len(NAMES)} of {len(NAMES)}"
    calls = dict(re.findall(r"(\S+) ([\d,]+)(?:, |$)", lines[-1].removeprefix("calls of yours: ")))
    never = [name for name in NAMES if calls[name] == "0"]
    assert never == ([] if p_drop else ["11_training.dropout"])


@pytest.mark.slow
def test_the_task_of_the_readme_trains(mine, tmp_path, capsys):
    write_task(tmp_path)
    settings = ["--set", "training.updates=2", "--set", 'execution.device="cpu"']
    assert main(["train", str(tmp_path / "numbers.toml"), *settings, "--rules", str(mine)]) == 0
    assert "calls of yours: 01_arrays.linear_backward 20, " in capsys.readouterr().err


@pytest.mark.parametrize("own", [["01_arrays.linear_backward"], ["05_heads.merge"], NAMES[3:8]])
def test_a_folder_with_holes_trains_and_what_is_missing_is_named(own, mine):
    others = [name for name in NAMES if name not in own]
    for name in others:
        (mine / f"{name}.py").unlink()
    first, _, last = said_with(mine)
    assert first.startswith(f"yours: {len(own)} of {len(NAMES)}; ") and first.endswith(", ".join(others))
    assert re.findall(r"[\w.]+ \d+", last) == [f"{name} 0" for name in own]
    assert Adam.step.__module__ == "minitransformer.optim.adam"


@pytest.mark.parametrize(
    ("text", "words", "count"),
    [
        (WRONG_BY_HAND, "its function is wrong: ", 16),
        (SLOW, "slow: ", 17),
    ],
)
def test_a_bad_function_is_named_in_one_line_and_the_rest_counts(text, words, count, mine):
    (mine / f"{WEIGHTS}.py").write_text(text)
    first, second, *_ = said_with(mine)
    assert first.startswith(f"{WEIGHTS}: ") and words in first and "\n" not in first
    assert second.startswith(f"yours: {count} of 17")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({WEIGHTS: weights_with("[..., :1] if len(q) > 5 else right(q, k, mask)")}, "ShapeError: "),
        ({WEIGHTS: weights_with(" * (1.0 + 1e-3 * (len(q) > 5))")}, "another update than the engine's"),
        ({WEIGHTS: weights_with(" if len(q) < 6 else missing")}, f"{WEIGHTS} raised NameError"),
        ({"11_training.dropout": WRONG_FOR_BATCHES}, "11_training.dropout must do the work of dropout, got another"),
        ({"04_attention.weight": SLOW}, "there is no exercise '04_attention.weight'; the nearest are 04_"),
        (dict.fromkeys(NAMES), "must hold a right function of one of these exercises: 01_arrays.linear_backward, "),
    ],
)
def test_what_cannot_enter_the_engine_is_one_line_and_exit_code_2(files, words, mine, tmp_path, capsys):
    for name, text in files.items():
        if text is None:
            (mine / f"{name}.py").unlink()
        else:
            (mine / f"{name}.py").write_text(text)
    (tmp_path / "empty.toml").write_text("")
    assert main(["train", str(tmp_path / "empty.toml"), "--rules", str(mine)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("minitransformer train: --rules: ") and words in last


def test_an_error_in_the_middle_of_training_names_its_exercise(mine):
    (mine / f"{WEIGHTS}.py").write_text(weights_with(" if q.shape[-1] != 5 else missing"))
    model = Transformer(ModelConfig(vocab_size=9, n_layers=1, d_model=10, d_ff=8, n_heads=2))
    with own_rules(mine, print), pytest.raises(ConfigError, match=f"--rules: {WEIGHTS} raised NameError"):
        model.loss(pad_batch([[4, 5]], [[6, 7]]))
