"""`python -m examples.parsing.train`: from a treebank to scores, killed and resumed, and what it refuses."""

import json
import os
import shutil
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_parsing import TREEBANK
from test_trees import one_tree
from tiny_run import write_config

from examples.parsing import compare, speed, train
from minitransformer.checkpoints import RunFolder, average_checkpoints, load_model
from minitransformer.training import Trainer, read_metrics

TRAINING = dict(directory="run", updates=120, micro_batches=2, threads=1, warmup_steps=40, clip_norm=1.0)
TRAINING |= dict(save_every=20, validate_every=60, keep_checkpoints=2)
KINDS = {"Transformer": dict(d_ff=64, n_heads=2), "recurrent": dict(kind="recurrent", attention="additive")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a treebank whose parts are the same trees, in training thrice, all but one in the test, and a
    recipe for each kind."""
    monkeypatch.chdir(tmp_path)
    for part, trees in (("train", TREEBANK * 3), ("dev", TREEBANK), ("test", TREEBANK.strip().rpartition("\n")[0])):
        Path(f"{part}.mrg").write_text(trees, encoding="utf-8")
    for kind, own in KINDS.items():
        model = dict(n_layers=1, d_model=32, p_drop=0.0, tie_embeddings=False) | own
        write_config(Path(f"{kind}.toml"), model=model, data=dict(src_tokens=100, tgt_tokens=100), training=TRAINING)
    return tmp_path


def run(command: str) -> int:
    return train.main([*"--trees . --results results.jsonl".split(), *command.split()])


def results() -> list[dict]:
    return [json.loads(line) for line in Path("results.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("form", "CB")
@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_parser_learns_the_trees_it_has_seen_and_trains_on(kind, form, folder):
    assert run(f"{kind}.toml --form {form}") == 0
    assert run(f"{kind}.toml --form {form} --part test --set training.updates=180") == 0
    first, second = results()
    assert (first["name"], second["name"]) == ("dev, 120 updates", "test, 180 updates")
    assert [point["update"] for point in second["points"]] == [60, 120, 180]
    assert second["points"][:2] == first["points"]
    assert second["score"]["f1"] == second["score"]["exact_match"] == 100.0
    assert (first["score"]["sentences"], second["score"]["sentences"]) == (4, 3)


@pytest.mark.parametrize("update", [60, 80], ids=["before a validation", "between two"])
def test_a_killed_training_goes_on_with_the_same_scores(update, folder, monkeypatch):
    assert run("Transformer.toml --set training.directory=whole") == 0
    whole, save = results()[0], Trainer._save
    nll = {line["update"]: line["nll"] for line in read_metrics("whole/metrics.jsonl") if line["kind"] == "valid"}
    assert {point["update"]: point["nll"] for point in whole["points"]} == nll

    def save_and_die(trainer):
        save(trainer)
        if trainer.update == update:
            raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_save", save_and_die)
    assert run("Transformer.toml --set training.updates=110") == 130
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    Path("results.jsonl").unlink()
    assert run("Transformer.toml") == 0
    for key in ("score", "settings"):
        assert results()[0][key] == whole[key]
    for ours, theirs in zip(results()[0]["points"], whole["points"], strict=True):
        assert {**ours, "seconds": 0, "scoring_seconds": 0} == {**theirs, "seconds": 0, "scoring_seconds": 0}


@pytest.mark.parametrize("signaled, beyond", [(11, 12), (0, 14)], ids=["after a signal", "of a longer training"])
def test_the_mean_is_of_the_same_checkpoints_whatever_else_there_is(signaled, beyond, folder, monkeypatch):
    short = "Transformer.toml --set training.save_every=2 --set training.validate_every=6 --set training.updates="
    one_update, scored, beams = Trainer._one_update, [], []

    def update_and_signal(trainer, bar):
        one_update(trainer, bar)
        if trainer.update == signaled:
            os.kill(os.getpid(), signal.SIGTERM)

    def score(*arguments, scores=train.scores):
        scored.append(arguments[2].parameters.data.copy())
        beams.append(arguments[4])
        return scores(*arguments)

    monkeypatch.setattr(train, "scores", score)
    assert run(f"{short}12 --set training.directory=whole") == 0
    whole, path_of = scored[-1], RunFolder("whole").path_of
    np.testing.assert_array_equal(whole, average_checkpoints([path_of(10), path_of(12)]).parameters)
    assert beams == [1, 1, 4]  # greedily on the way, by the recipe's beam at the end
    Path("results.jsonl").unlink()
    with monkeypatch.context() as patched, pytest.raises(SystemExit) if signaled else nullcontext():
        patched.setattr(Trainer, "_one_update", update_and_signal)
        run(f"{short}{beyond}")
    assert run(f"{short}12") == 0
    np.testing.assert_array_equal(scored[-1], whole)


def test_other_settings_and_results_that_exist_are_refused_by_name(folder, capsys):
    short = "Transformer.toml --set training.updates=40"
    assert run(short) == 0
    before = results()
    for more, message in (
        ("", "must lack the result that is asked for, got dev, 40 updates, seed 1"),
        ("--set model.p_drop=0.5", "results must have the settings of this call, model.p_drop = 0.5, got 0.0"),
        ("--set training.init_from=run", "training.init_from = 'run', got None"),
        ("--form B", "form = 'B', got 'C'"),
        ("--set data.tgt_tokens=90", "data.tgt_tokens = 90, got 100"),
        ("--results others.jsonl --set training.directory=new --set training.keep_checkpoints=3", "1 to 2 checkpoints"),
        ("--results others.jsonl --set training.directory=new --set training.keep_checkpoints=0", "1 to 2 checkpoints"),
        ("--trees nowhere", "nowhere: must hold trees in train*.mrg"),
        ("--set training.updates=60 --set training.warmup_steps=9", "training.warmup_steps = 9, got 40"),
        ("--results others.jsonl --set model.p_drop=0.5", "model.p_drop must be 0.0 to resume from run/"),
    ):
        assert (train.main([*f"{short} --trees . --results results.jsonl {more}".split()])) == 2
        assert message in capsys.readouterr().err
    assert results() == before and not Path("others.jsonl").exists() and not Path("new").exists()


def test_a_command_that_was_started_twice_adds_one_result(folder, capsys, monkeypatch):
    command, mean_of_last = "Transformer.toml --set training.updates=40", train.mean_of_last

    def mean_after_another(*arguments):
        with monkeypatch.context() as patched:
            patched.setattr(train, "mean_of_last", mean_of_last)
            assert run(command) == 0
        return mean_of_last(*arguments)

    monkeypatch.setattr(train, "mean_of_last", mean_after_another)
    assert run(command) == 2
    assert "must lack the result that is asked for" in capsys.readouterr().err and len(results()) == 1


def test_what_is_timed_is_what_is_trained(folder, monkeypatch):
    monkeypatch.setattr(speed, "ROUNDS", 1)
    monkeypatch.setattr(speed, "UPDATES", 3)
    timed = []
    monkeypatch.setattr(
        speed, "update_often", lambda *arguments, run=speed.update_often: timed.append(arguments) or run(*arguments)
    )
    assert speed.main([*"Transformer.toml recurrent.toml --trees . --results . --set training.threads=2".split()]) == 0
    written = speed.read_speeds(Path("speed.json"))
    assert list(written) == ["Transformer-C", "recurrent-C"]
    assert all(each["seconds"] == each["of"][0] > 0 and each["threads"] == 1 for each in written.values())
    configs = [trainer.config for trainer, _ in timed]  # minutes are those of a core
    assert {(config.execution.device, config.training.threads) for config in configs} == {("cpu", 1)}
    for kind, (trainer, _) in zip(KINDS, timed, strict=False):
        assert run(f"{kind}.toml --results {kind}.jsonl --set training.updates=6 --set training.save_every=3") == 0
        assert [list(updates) for each, updates in timed if each is trainer] == [[1, 2, 3], [4, 5, 6]]
        trained, _ = load_model("run/checkpoints/update_00000006.npz")
        np.testing.assert_array_equal(trainer.model.parameters.data, trained.parameters.data)
        shutil.rmtree("run")


def test_seeds_are_compared_at_the_updates_that_all_of_them_have_scored():
    def result(seed, *updates):
        points = [{"update": update, "f1": update / 10 + seed} for update in updates]
        return {"seed": seed, "points": points, "score": {"f1": 90.0}}

    whole = [result(1, 100, 200, 300, 400), result(2, 200, 400)]
    curve = compare.ParserCurve("aligned-C", [*whole, result(1, 100, 200)], 6.0)  # the last has not trained on
    assert curve.results == whole
    assert curve.minutes.tolist() == [20, 40] and curve.scores.tolist() == [[21, 41], [22, 42]]


def test_seconds_are_the_median_of_the_rounds_after_the_first_and_those_of_one_update(tmp_path, monkeypatch):
    clock, rounds = [0.0], iter([100.0, 8.0, 4.0, 40.0])

    def update_often(trainer, updates):
        assert len(updates) == 4
        clock[0] += next(rounds)

    monkeypatch.setattr(speed, "ROUNDS", 3)
    monkeypatch.setattr(speed, "UPDATES", 4)
    monkeypatch.setattr(speed, "update_often", update_often)
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    speed.measure(tmp_path / "speed.json", {"aligned-C": None}, {})
    assert speed.read_speeds(tmp_path / "speed.json")["aligned-C"]["seconds"] == 2.0


def test_precision_is_of_the_brackets_of_the_parser_and_recall_of_those_of_the_treebank():
    one, three = one_tree("(S (NN a) (VB b))"), one_tree("(S (NP (NN a)) (VP (VB b)))")
    bank = SimpleNamespace(parse=lambda *given: [one])
    config = SimpleNamespace(training=SimpleNamespace(threads=1), translation=SimpleNamespace(batch_tokens=9))
    found = train.scores(config, bank, None, [three], 1)
    assert (found["precision"], found["recall"], found["f1"]) == (100.0, 33.33, 50.0)


def test_minutes_are_updates_times_seconds_and_a_crossing_is_found(tmp_path, capsys, refused):
    curves = {"aligned-C": ([10, 40, 80], 6.0), "aligned-recurrent-C": ([30, 50, 60], 3.0)}
    for name, (f1, _) in curves.items():
        lines = []
        for seed in (1, 2):
            points = [{"update": 100 * (number + 1), "f1": each + seed} for number, each in enumerate(f1)]
            for part, score in (("dev", 90.0), ("test", 10.0)):  # of the test set nothing is shown here
                result = {"name": f"{part}, 300 updates", "seed": seed, "points": points, "score": {"f1": score}}
                lines.append(json.dumps(result))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    arguments = ["--results", str(tmp_path)]
    refused(compare.main(arguments), "speed.json: must hold aligned-C")
    speeds = {name: {"seconds": seconds} for name, (_, seconds) in curves.items()}
    (tmp_path / "speed.json").write_text(json.dumps(speeds), encoding="utf-8")
    assert compare.main(arguments) == 0
    table = capsys.readouterr().out
    assert "| 5 | - | 31.5 ± 0.5 |" in table
    assert "| 10 | 11.5 ± 0.5 | 51.5 ± 0.5 |" in table
    assert "| 20 | 41.5 ± 0.5 | - |" in table and "beam | 90.0 ± 0.0 | 90.0 ± 0.0 |" in table
    assert "Transformer, form C, compared with the recurrent model, form C: does not cross up to 15 minutes." in table
