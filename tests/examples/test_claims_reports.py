"""The reports of the experiments on the paper's claims say what the figures say, here of constructed results."""

import json
import math
import re
import sys
from pathlib import Path

import pytest
from extras import need

from examples.paper import (
    attention_scale,
    label_smoothing,
    long_range,
    positions,
    program,
    recurrent,
    table1_report,
    table2,
    table3,
    table3_report,
    trials,
)
from minitransformer.errors import ConfigError

EXPERIMENTS = {
    "attention_scale": attention_scale,
    "positions": positions,
    "long_range": long_range,
    "recurrent": recurrent,
}
RESULTS = Path(__file__).parents[2] / "examples/paper/results"


def smoothing_results(paper, noise_of, rows=("base", "D3", "D4")):
    """Three seeds of rows of Table 3, with the paper's differences and noise by row and seed."""
    return [
        {
            "name": row,
            "seed": seed,
            "nll": math.log(paper[row][0]) + noise_of(row, seed),
            "bleu": paper[row][1] + 10 * noise_of(row, seed),
            "machine": {"processor": "a processor", "commit": "c0ffee"},
        }
        for row in rows
        for seed in (1, 2, 3)
    ]


def test_rows_that_were_constructed_with_the_papers_differences_agree():
    report, paper = label_smoothing.report, table3.PAPER
    results = smoothing_results(paper, lambda row, seed: (0.01, -0.03, 0.02)[seed - 1])  # equal for equal seeds
    text = report(results)
    assert text.count("| higher, as in the paper |") == 4
    assert (
        "| log-perplexity, nats | 0.052 | 0.052 ± 0.000 | 3 |" in text and "| BLEU | 0.50 | 0.50 ± 0.00 | 3 |" in text
    )
    turned = report([result | {"nll": -result["nll"], "bleu": result["seed"]} for result in results])
    assert turned.count("| lower, not as in the paper |") == turned.count("| open: not told apart |") == 2
    with pytest.raises(ConfigError, match="base and D3 with the same seed, got none"):
        report(results[:1])


def constructed(experiment, figures_of, seeds=2):
    """A result of every trial with so many seeds, which differ by a hundredth."""
    machine = {"processor": "a processor", "NumPy": "2", "commit": "c0ffee"}
    shared = {"settings": experiment.settings, "machine": machine}
    return [
        {"name": name, "seed": seed, **figures_of(name, seed / 100), **shared}
        for name in experiment.names(experiment.settings)
        for seed in range(1, seeds + 1)
    ]


def long_range_results(experiment, farthest):
    """farthest: of each kind the distance up to which all is right"""

    def figures(name, noise):
        kind, distance = name.split(", ")
        right = int(distance) <= farthest[kind]
        path = kind != "convolutional" or int(distance) <= 8
        row = {"accuracy": [1.0 if right else 0.05, 0.5], "loss": [noise, 1.0], "share": 0.1 * path}
        return {"kind": kind, "distance": int(distance), "width": 40, "parameters": 50000, **row}

    return constructed(experiment, figures, seeds=5)


def test_the_report_on_distances_says_how_many_trainings_were_solved():
    module = long_range
    farthest = dict.fromkeys(module.SETTINGS["kinds"], 64) | {"convolutional": 8, "recurrent": 8}
    text = module.markdown(long_range_results(module.EXPERIMENT, farthest))
    assert "recurrent 10 of 25, self-attention 25 of 25 | agrees |" in text
    assert "at most 5% of the symbols right, by chance 6% | agrees |" in text
    assert re.search(r"\| recurrent \(.*\| 5 of 5 \(1.00\) \| 0 of 5 \(0.05\) .*\| 10 of 25 \| fewer \|", text)
    assert "greater distances" not in text
    text = module.markdown(long_range_results(module.EXPERIMENT, dict.fromkeys(farthest, 64)))
    assert "recurrent 25 of 25, self-attention 25 of 25 | open: not told apart |" in text
    text = module.markdown(long_range_results(module.EXPERIMENT, dict.fromkeys(farthest, 64) | {"self-attention": 8}))
    assert "recurrent 25 of 25, self-attention 10 of 25 | does not agree |" in text


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_committed_page_of_an_experiment_is_what_its_results_say(name):
    results = program.read_results(RESULTS / f"{name}.jsonl")
    assert EXPERIMENTS[name].markdown(results) == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def test_the_committed_pages_of_the_tables_are_what_the_results_say():
    rows = program.read_results(RESULTS / "table3.jsonl")
    table1 = json.loads((RESULTS / "table1.json").read_text(encoding="utf-8"))
    pages = {
        "table1": table1_report.markdown(table1),
        "table2": table2.markdown(table2.trainings()),
        "table3": table3_report.markdown(rows, table3.PAPER),
        "label_smoothing": label_smoothing.report(rows),
    }
    for name, text in pages.items():
        assert text == (RESULTS / f"{name}.md").read_text(encoding="utf-8"), name


@pytest.mark.parametrize(
    "name", ["attention_scale", "positions", "long_range", pytest.param("recurrent", marks=pytest.mark.slow)]
)
def test_a_quick_run_prints_its_report_and_writes_nothing(name, monkeypatch, capsys, tmp_path):
    need(*["sacrebleu"] * (name == "recurrent"))
    module = EXPERIMENTS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--results", str(tmp_path / "results.jsonl")])
    assert trials.main(module.EXPERIMENT) == 0
    text = capsys.readouterr().out
    assert text.startswith("# ")
    assert name != "recurrent" or all(f"| {model} | " in text for model in module.SETTINGS["models"])
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_that_is_done_writes_its_report_without_a_trial(monkeypatch, tmp_path, capsys):
    need("matplotlib")
    module = long_range
    results = long_range_results(module.EXPERIMENT, dict.fromkeys(module.SETTINGS["kinds"], 64))
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["long_range", "--results", str(path)])
    assert trials.main(module.EXPERIMENT) == 0
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == capsys.readouterr().out
    path.write_text(json.dumps(results[0] | {"settings": {"distances": [3]}}), encoding="utf-8")
    assert trials.main(module.EXPERIMENT) == 2
    assert "results must have the settings" in capsys.readouterr().err
