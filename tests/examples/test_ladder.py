"""The ladder of Multi30k: one change a rung, choices by all seeds, results of other settings refused."""

import json
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from extras import need

from examples.multi30k import ladder, ladder_report, one_run
from examples.multi30k.rungs import climb
from examples.paper.points import mean_of_last
from examples.paper.seeds import paired
from minitransformer.checkpoints import RunFolder, average_checkpoints
from minitransformer.config import ExecutionConfig
from minitransformer.errors import DataError
from minitransformer.text import read_parallel
from minitransformer.training import Trainer

RECIPE = """[model]
n_layers = 1\nd_model = 8\nd_ff = 8\nn_heads = 2
[training]
updates = 12\nmicro_batches = 2\nwarmup_steps = 4\nlog_every = 2\nvalidate_every = 6\nsave_every = 1
[translation]
beam_size = 2\nmax_extra = 5
"""


@pytest.fixture
def folder(tmp_path):
    """A recipe and text of ten words, and the options that point to them."""
    rng = np.random.default_rng(1)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    for name in ("train.en", "train.de", "val.en", "val.de", "test_2016_flickr.en", "test_2016_flickr.de"):
        lines = [" ".join(rng.choice("a man and the dog runs on some green grass".split(), 7)) for _ in range(30)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    paths = {"recipe": "recipe.toml", "data": "", "directory": "runs", "results": "ladder.jsonl"}
    return tmp_path, [f"--{name}={tmp_path / path}" for name, path in paths.items()] + ["--vocab-size=300", "--seeds=2"]


def scored(steps, arguments, **bleu):
    """A result of every training of ``steps`` and both seeds: BLEU 30, but for those that are named; the mean of ten
    has 1 more, but 1 less with dropout in more places."""
    machine = {"processor": "a processor", "NumPy": "2", "commit": "c0ffee"}
    facts = {"nll": 2.0, "updates": 60, "parameters": 10**6, "machine": machine}
    for step, seed in ((step, seed) for step in steps if step.run == step.label for seed in (1, 2)):
        value = {"bleu": bleu.get(step.run.replace(" ", "_"), 30.0) + seed / 8, "lower": 1.0, "signature": "s"}
        facts |= {"config": one_run.recorded(one_run.config_of(step, seed, arguments))}
        mean = value | {"bleu": value["bleu"] + (-1 if step.run == "dropout places" else 1), "lower": 2.0}
        facts |= {"val": {"1": value, "10": mean}, "settings": one_run.settings_of(arguments)}
        yield {"name": step.run, "seed": seed, **facts}


def test_a_perfect_translation_has_100_bleu_of_both_kinds(moses, monkeypatch):
    need("sacrebleu")
    lines = [" ".join(f"Wort{n}" for n in range(first, first + 6)) for first in range(5)]
    built = {"cuda": (None, None)}  # where it was trained
    monkeypatch.setattr(one_run, "mean_of_last", lambda config, count: SimpleNamespace(build=built.__getitem__))
    monkeypatch.setattr(one_run, "translate_lines", lambda model, tokenizer, sources, search: lines)
    config = SimpleNamespace(translation=None, execution=ExecutionConfig(device="cuda"))
    found = one_run.scores(config, 1, lines, lines)
    assert (found["bleu"], found["lower"]) == pytest.approx((100, 100))


def test_the_lower_cased_words_are_those_of_moses_with_plain_quotes_and_whole_compounds(moses):
    shown = "Ein Mann im T-Shirt ruft: „Wie geht’s?“"
    assert one_run.moses_lower(shown) == "ein mann im t-shirt ruft : &quot; wie geht &apos; s ? &quot;"


def test_the_one_run_that_the_help_shows_waits_for_no_other(folder):
    shown = re.search(r"ladder (--only .*?)  ", ladder.__doc__)[1]
    assert len(ladder.missing_jobs(ladder.parse_arguments([*shlex.split(shown), *folder[1]]))) == 1


def test_each_rung_is_the_one_below_with_one_change_and_choices_are_the_best_of_all_seeds(folder):
    arguments = ladder.parse_arguments(folder[1])
    lowest = climb([], 2, 99)
    assert [step.label for step in lowest][-1] == "peak rate 0.005" and lowest[2].settings["model.norm"] == "pre"
    tried = list(scored(lowest, arguments, **{"peak_rate_0.003": 31.0}))
    assert climb(tried[:-1], 2, 99) == lowest
    middle = climb(tried, 2, 99)
    more = [
        each | {"seed": 3, "val": dict.fromkeys(("1", "10"), {"bleu": 99.0})} for each in tried if each["seed"] == 1
    ]
    assert climb([*tried, *more[:3]], 2, 99) == middle  # a seed beyond those asked for chooses nothing
    bleu = {"peak_rate_0.003": 31.0, "more_updates": 33.0, "dropout_places": 34.0, "BPE_dropout": 32.5}
    results = list(scored(middle, arguments, **bleu))
    assert climb(results, 2, 99)[-1].label == "BPE dropout"
    results += [each for each in scored(climb(results, 2, 99), arguments, **bleu) if each["name"] == "BPE dropout"]
    steps = {step.label: step for step in climb(results, 2, 99)}
    assert steps["mean of 10"].run == "pre-norm"
    last = steps["twice the updates"]
    assert steps["BPE dropout"].below == last.below == "more updates"  # neither kind of dropout helped
    assert [steps[name].settings["training.updates"] for name in ("more updates", last.label)] == [99, 198]
    for step in list(steps.values())[1:]:
        below = steps[step.below].settings
        added = {key: value for key, value in step.settings.items() if below.get(key) != value}
        assert added == (step.changes if step.run == step.label else {})
        one_run.config_of(step, 1, arguments)
    assert last.settings["training.learning_rate"] == 0.003 and last.checkpoints == 10
    folders = {step.label: one_run.folder_of(step, 1, arguments) for step in steps.values() if step.run == step.label}
    assert folders["twice the updates"] == folders["more updates"] == folders["peak rate 0.003"]
    assert len(set(folders.values())) == len(folders) - 2
    passed = {"peak rate 0.005", "dropout places", "BPE dropout"}
    assert ladder_report.not_kept(list(steps.values())) == passed
    text = ladder_report.markdown(results, list(steps.values()), arguments, "")
    assert "Not measured yet: twice the updates (seed 1, 2)." in text
    assert "| dropout places (not kept) |" in text and "| 34.19 ± 0.06 | 2.00 ± 0.00 |" in text
    (row,) = re.findall(r"\| mean of 10 \| .*", text)
    assert "| 31.19 ± 0.06 | 1.00 ± 0.00 |" in row and row.endswith("| 2.00 ± 0.00 | 2.000 ± 0.000 |")


def test_a_result_of_no_rung_is_refused_and_one_whose_rung_waits_is_not(folder):
    arguments = ladder.parse_arguments(folder[1])
    result = next(scored(climb([], 2, 99), arguments))
    arguments.results.write_text(json.dumps(result | {"name": "BPE dropout"}) + "\n")
    assert len(ladder.steps_of(arguments)) == 5
    arguments.results.write_text(json.dumps(result | {"name": "peak rate 0.004"}) + "\n")
    with pytest.raises(DataError, match="ladder.jsonl: peak rate 0.004, seed 1: must be of a rung, got another"):
        ladder.steps_of(arguments)


def test_gains_are_compared_with_the_rung_below_and_corrected_for_their_number():
    steps, gain, bleu = climb([], 3, 99), np.array([0.8, 1.0, 1.3]), {}
    for step in steps:
        bleu[step.label] = bleu[step.below] + gain if step.below else 20.0 * np.arange(3)  # of seeds, in common
    rows = [
        {"name": name, "seed": seed, "bleu": value, "lower": 0.0, "nll": 0.0}
        for name, values in bleu.items()
        for seed, value in enumerate(values, 1)
    ]
    assert [row[5] for row in ladder_report.table(rows, steps)] == ["", *[f"{4 * paired(gain)[1]:.2g}"] * 4]


def test_the_test_set_is_translated_by_the_rungs_own_model_and_mean(folder, monkeypatch):
    arguments, used = ladder.parse_arguments([*folder[1], "--test", "mean of 10"]), []
    results = scored(climb([], 2, 99), arguments)
    arguments.results.write_text("".join(json.dumps(result) + "\n" for result in results))

    def score(config, count, *text):
        used.append((config.model.norm, config.training.seed, count))
        return {"bleu": 40.0, "lower": 41.0}

    monkeypatch.setattr(ladder, "scores", score)
    ladder.score_test(arguments)
    assert used == [("pre", 1, 10), ("pre", 2, 10)]


@pytest.mark.parametrize(
    "changed",
    [
        "[data]\ntgt_tokens = 77",
        "[translation]\nalpha = 0.25",
        "[training]\neps = 0.5",
        "[training]\ninit_from = 'a model'",
    ],
)
def test_a_result_is_refused_after_any_setting_has_changed(folder, changed):
    arguments, (section, setting) = ladder.parse_arguments(folder[1]), changed.split("\n")
    arguments.results.write_text(json.dumps(next(scored(climb([], 2, 99), arguments))) + "\n")
    recipe = arguments.recipe.read_text()
    text = recipe.replace(section, changed) if section in recipe else f"{recipe}{changed}\n"
    arguments.recipe.write_text(text)
    with pytest.raises(DataError, match=f"recipe, seed 1: .* {section[1:-1]}.{setting}, got"):
        ladder.steps_of(arguments)


def check_a_killed_run(step, path, options, arguments, whole):
    """One that goes on in another folder ends as the ``whole`` one did, and is not taken beyond its end."""
    again = ladder.parse_arguments([*options, f"--directory={path / 'again'}"])
    (path / "again").mkdir()
    one_run.tokenizer_path(again).write_bytes(one_run.tokenizer_path(arguments).read_bytes())
    config = one_run.config_of(step, 1, again)
    Trainer(replace(config, training=replace(config.training, updates=7)), progress=False).run()
    resumed = one_run.train_and_score(step, 1, again)
    assert {key: resumed[key] for key in ("val", "nll", "config")} == {
        key: whole[key] for key in ("val", "nll", "config")
    }
    Trainer(replace(config, training=replace(config.training, updates=14)), progress=False).run()
    with pytest.raises(DataError, match="must not be beyond update 12, which has no score yet, got 14"):
        one_run.train_and_score(step, 1, again)
    folder, found = RunFolder(config.training.directory), mean_of_last(config, 10)
    mean = average_checkpoints([*map(folder.path_of, range(3, 13))])  # what a rung above it has left is not in it
    np.testing.assert_array_equal(found.parameters, mean.parameters)


def test_a_killed_run_goes_on_and_results_of_other_settings_and_a_second_test_are_refused(folder, capsys, monkeypatch):
    need("sacrebleu"), need("sacremoses"), need("matplotlib")
    path, options = folder
    arguments = ladder.parse_arguments([*options, "--only", "recipe", "--seed", "1"])
    assert ladder.main([*options, "--only", "recipe", "--processes=1"]) == 0
    results = [json.loads(line) for line in (path / "ladder.jsonl").read_text().splitlines()]
    assert [result["seed"] for result in results] == [1, 2]
    assert "dropout places, BPE dropout, twice the updates." in (path / "ladder.md").read_text()
    assert (path / "ladder.png").exists()
    step = climb([], 2, 99)[0]
    check_a_killed_run(step, path, options, arguments, results[0])
    for refused, words in (
        (["--only", "BPE dropout"], "got 'BPE dropout'; it waits for all seeds of peak rate"),
        (["--test", "pre-norm"], "--test must be a rung with results of all seeds, got 'pre-norm'"),
    ):
        assert ladder.main([*options, *refused]) == 2 and words in capsys.readouterr().err
    scored_text, scores = [], ladder.scores
    monkeypatch.setattr(ladder, "scores", lambda *given: scored_text.append(given[2:]) or scores(*given))
    assert ladder.main([*options, "--test", "recipe"]) == 0
    assert "translated once, with recipe: " in (path / "ladder.md").read_text()
    text = read_parallel(*(path / f"test_2016_flickr.{side}" for side in ("en", "de")))
    expected = [{"seed": n} | scores(one_run.config_of(step, n, arguments), 1, *text) for n in (1, 2)]
    assert scored_text == [text] * 2 and json.loads((path / "ladder_test.json").read_text())["scores"] == expected
    assert ladder.main([*options, "--test", "recipe"]) == 2 and "must be given once" in capsys.readouterr().err
    (path / "ladder_test.json").write_text("{")
    assert ladder.main([*options, "--report"]) == 2 and "ladder_test.json: every result" in capsys.readouterr().err
    for name, old, new in (("model.d_ff", 8, 16), ("training.updates", 12, 18)):
        key = name.split(".")[1]
        (path / "recipe.toml").write_text(RECIPE.replace(f"\n{key} = {old}\n", f"\n{key} = {new}\n"))
        assert ladder.main([*options, "--report"]) == 2
        told = f"recipe, seed 1: results must have the settings of this call, {name} = {new}, got {old}; set it back"
        assert told in capsys.readouterr().err
