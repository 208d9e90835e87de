"""The map of when attention overtakes recurrence: equal models, the best rates, results refused by name."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from extras import need
from test_parsing import TREEBANK

from examples.paper import crossover, crossover_report, crossover_tasks
from examples.paper.program import read_results
from examples.parsing import speed
from minitransformer.errors import ConfigError


@pytest.mark.parametrize("task", ["Multi30k", "parsing"])
def test_the_models_have_equal_sizes_and_their_minutes_equal_times(task):
    settings = crossover.SETTINGS | {"update_seconds": {f"{task}, GRU": 0.2, f"{task}, pre-norm": 0.3}}
    sizes = {"vocab_size": 4000} if task == "Multi30k" else {"vocab_size": 1863, "src_vocab_size": 11721}
    sizes |= {"tie_embeddings": task == "Multi30k"}
    models = [crossover_tasks.model_config(task, model, sizes, settings) for model in settings["models"]]
    counts = [crossover.parameter_count(model) for model in models]
    np.testing.assert_allclose(counts, counts[0], rtol=0.02)
    updates = [crossover_tasks.updates_of(task, model, 80, settings) for model in ("GRU", "pre-norm")]
    assert updates == [24_000, 16_000]


def test_the_rate_of_the_lowest_loss_is_chosen_and_results_of_another_are_refused():
    tried = {"task": "parsing", "model": "GRU", "part": "rates", "seed": 1}
    results = [tried | {"rate": rate, "points": [{"nll": nll}]} for rate, nll in ((0.003, 2.0), (0.006, 1.5))]
    results += [results[0] | {"model": "pre-norm", "rate": 0.012}]  # another model's
    assert crossover.best_rate(results, "parsing", "GRU", [0.003, 0.006]) == 0.006
    with pytest.raises(ConfigError, match="must follow the step rates, got no result of parsing, GRU, rate 0.012"):
        crossover.best_rate(results, "parsing", "GRU", [0.003, 0.006, 0.012])
    trained = {**tried, "part": "val", "name": "parsing, GRU, 20 minutes", "rate": 0.006}
    assert crossover.best_rate([*results, trained], "parsing", "GRU", [0.003, 0.006]) == 0.006
    better = tried | {"rate": 0.012, "points": [{"nll": 1.0}]}
    with pytest.raises(ConfigError, match="the rate of parsing, GRU, 20 minutes, seed 1, must be the best that was tr"):
        crossover.best_rate([*results, trained, better], "parsing", "GRU", [0.003, 0.006])


def test_a_curve_is_that_of_the_longest_training_of_each_seed_and_of_none_that_chose_the_rate():
    settings = {"tasks": ["parsing"], "minutes": [5, 20, 40]}
    trained = [("val", 40, 1, [1, 2, 3]), ("val", 20, 1, [1, 9]), ("val", 40, 2, [2, 3, 4]), ("rates", 5, 3, [9])]
    results = [
        {"task": "parsing", "model": "GRU", "part": part, "minutes": minutes, "seed": seed, "settings": settings}
        | {"points": [{"score": score} for score in scores]}
        for part, minutes, seed, scores in trained
    ]
    curve = crossover_report.curves_of(results)["parsing", "GRU"]
    assert curve.seeds == [1, 2] and curve.scores.tolist() == [[1, 2, 3], [2, 3, 4]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with tiny data, where jobs run in this process, of a second of training at most."""
    need("sacrebleu", "matplotlib")
    monkeypatch.chdir(tmp_path)
    for part, size in (("train", 40), ("val", 40), ("test_2016_flickr", 30)):
        for side, words in (("en", "one two three four five six"), ("de", "eins zwei drei vier fünf sechs")):
            lines = [" ".join(words.split()[: 2 + number % 5]) for number in range(size)]
            path = Path(f"data/multi30k/{part}.{side}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("data/craft_trees").mkdir()
    for part, times in (("train", 3), ("dev", 1), ("test", 2)):
        Path(f"data/craft_trees/{part}.mrg").write_text(TREEBANK * times, encoding="utf-8")
    shapes = {"n_layers": 1, "tokens": 60, "micro_batches": 2}
    tasks = {"Multi30k": {**shapes, "vocab_size": 300}, "parsing": {**shapes, "form": "C"}}
    tiny = {"tasks": tasks, "width": 16, "rated_at": 5, "minutes": [2.5, 5, 10], "save_every": 5}
    monkeypatch.setattr(crossover, "SETTINGS", crossover.SETTINGS | tiny)
    monkeypatch.setattr(crossover, "RATES", [0.003, 0.006])
    monkeypatch.setattr(crossover, "run_sweep", run_here)
    monkeypatch.setattr(crossover, "machine_facts", lambda: {"processor": "one", "NumPy": "2", "commit": "c0ffee"})
    monkeypatch.setattr(speed, "ROUNDS", 1)
    monkeypatch.setattr(speed, "UPDATES", 1)
    return tmp_path


def run_here(jobs, path, processes):
    for job in jobs:
        if (job.name, job.seed) not in {result["key"] for result in read_results(path)}:
            result = crossover.measured(json.loads(job.command[-1]))
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")


def run(words, monkeypatch, *more) -> int:
    monkeypatch.setattr(sys, "argv", ["crossover", *words.split(), "--results", "map.jsonl", "--folder", "runs", *more])
    return crossover.main()


def set_speeds(seconds=15.0):
    """5 minutes are 20 updates."""
    path = Path("map_speed.json")
    speeds = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({name: each | {"seconds": seconds} for name, each in speeds.items()}), encoding="utf-8")


@pytest.mark.slow
def test_from_the_speed_to_the_page_and_the_test_set(folder, monkeypatch, capsys):
    assert run("speed", monkeypatch) == 0
    assert len(speed.read_speeds(Path("map_speed.json"))) == 6
    set_speeds()
    models = "--models GRU pre-norm --seeds 2"
    assert run(f"run --minutes 10 {models}", monkeypatch) == 2
    assert "must follow the step rates, got no result of Multi30k, GRU, rate 0.003" in capsys.readouterr().err
    assert run(f"rates {models}", monkeypatch) == 0
    assert run(f"run --minutes 5 {models}", monkeypatch) == 0
    assert run(f"run --minutes 10 {models}", monkeypatch) == 0
    loaded, load = set(), crossover.load_checkpoint
    monkeypatch.setattr(crossover, "load_checkpoint", lambda path: loaded.add(path.name) or load(path))
    assert run(f"run --minutes 10 {models} --part test", monkeypatch) == 0
    assert loaded == {"update_00000040.npz"}  # that of these minutes
    results = read_results(Path("map.jsonl"))
    assert [sum(each["part"] == part for each in results) for part in ("rates", "val", "test")] == [8, 16, 8]
    losses = crossover_report.losses_of(results, "parsing", "GRU")
    for each in results:
        if each["part"] == "val":
            updates = [10, 20, 40][: 2 if each["minutes"] == 5 else 3]
            assert [point["update"] for point in each["points"]] == updates
            assert (each["task"], each["model"]) != ("parsing", "GRU") or each["rate"] == min(losses, key=losses.get)
    text = Path("map.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| (\w+): the Transformer, pre-norm, overtakes the GRU \|", text)
    assert rows == ["Multi30k", "parsing"] and text.count("test set, scored once") == 2
    assert len(re.findall(r"\| 10 \| [^|]+ \| 2 \|", text)) == 4  # the mean of two seeds, of each model and task
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    before = Path("map.jsonl").read_bytes()
    assert run(f"run --minutes 10 {models} --part test", monkeypatch) == 0  # has been scored
    assert Path("map.jsonl").read_bytes() == before


@pytest.mark.parametrize(("is_test", "sizes"), [(False, [40, 4]), (True, [30, 8])])
def test_each_part_is_scored_greedily_on_its_own_text(folder, monkeypatch, is_test, sizes):
    scored = []

    def translate(model, tokenizer, lines, search):
        scored.append((len(lines), search.beam_size))
        return lines

    def score(config, bank, model, trees, beam_size):
        scored.append((len(trees), beam_size))
        return {"f1": 50.0}

    monkeypatch.setattr(crossover_tasks, "translate_lines", translate)
    monkeypatch.setattr(crossover_tasks, "scores", score)
    for name in crossover_tasks.TASKS:
        crossover_tasks.task_of(name, crossover.SETTINGS, is_test).score(None, None)
    assert scored == [(size, 1) for size in sizes]  # BLEU is refused where the references are not as many


def test_the_options_of_a_step_are_heeded_and_other_settings_are_refused_by_name(folder, monkeypatch, capsys):
    only = "--tasks parsing --models pre-norm --seeds 1"
    assert run(f"speed {only}", monkeypatch) == 0
    assert list(speed.read_speeds(Path("map_speed.json"))) == ["parsing, pre-norm"]
    assert run("speed --models GRU post-norm", monkeypatch) == run("speed --tasks Multi30k", monkeypatch) == 0
    set_speeds()
    assert run(f"rates {only} --rates 0.003", monkeypatch) == 0
    assert "the lowest or highest learning rate tried was chosen" in capsys.readouterr().out
    assert run(f"rates {only} --rates 0.003", monkeypatch, "--results", "whole.jsonl") == 2
    assert "whole_speed.json: must hold the speed of Multi30k, GRU, got none" in capsys.readouterr().err
    assert run(f"run {only} --width 32", monkeypatch) == 2
    assert "map_speed.json: results must have the settings of this call, width = 32, got 16" in capsys.readouterr().err
    set_speeds(14.0)
    assert run(f"run {only}", monkeypatch) == 2
    assert "map.jsonl: results must have the settings of this call, update_seconds = {'Multi" in capsys.readouterr().err
    assert run(f"rates {only} --rates 0", monkeypatch) == 2
    assert "--rates must be above 0, got 0" in capsys.readouterr().err
