"""The reports of the experiments on the paper's claims say what the results say."""

import json
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

EXPERIMENTS = {
    "attention_scale": attention_scale,
    "positions": positions,
    "long_range": long_range,
    "recurrent": recurrent,
}
RESULTS = Path(__file__).parents[2] / "examples/paper/results"


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
    module, path = long_range, tmp_path / "results.jsonl"
    path.write_bytes((RESULTS / "long_range.jsonl").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["long_range", "--results", str(path)])
    assert trials.main(module.EXPERIMENT) == 0
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == capsys.readouterr().out
    path.write_text(json.dumps({"name": "recurrent, 4", "seed": 1, "settings": {"distances": [3]}}), encoding="utf-8")
    assert trials.main(module.EXPERIMENT) == 2
    assert "results must have the settings" in capsys.readouterr().err
