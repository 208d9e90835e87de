"""Table 2: what each training cost, by formula and as the paper counts."""

import json
import math
import sys

import pytest
from extras import need

from examples.paper import table2, table3
from minitransformer.planning import Cost


def test_a_training_is_added_to_table_2_once_and_only_when_it_is_done(monkeypatch, capsys, refused, tmp_path):
    need("matplotlib")
    monkeypatch.setattr(table2, "RESULTS", tmp_path)
    monkeypatch.setattr(table2, "OWN", tmp_path / "table2.jsonl")
    runs = [tmp_path / "my-run", tmp_path / "other-run"]
    monkeypatch.setattr(sys, "argv", ["table2", "--add", *map(str, runs)])
    for run in runs:  # none is added before all are there
        refused(table2.main(), f"{run}/cost.json: must exist")
        run.mkdir()
        (run / "cost.json").write_text(json.dumps(Cost(2e15, 100, 2, 4e13).to_dict()), encoding="utf-8")
    assert table2.main() == 0
    printed = capsys.readouterr().out
    assert "| training | hours |" in printed  # of two devices, and not of one core
    assert all(f"| recipes | {run.name} | 0.03 | 2.00e+15 | 8.00e+15 |" in printed for run in runs)
    refused(table2.main(), "must not have my-run already")
    kept = (tmp_path / "table2.jsonl").read_text(encoding="utf-8")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    monkeypatch.setattr(sys, "argv", ["table2", "--add", str(damaged)])
    huge = '{"formula": 1, "seconds": 1' + "0" * 400 + ', "devices": 1, "sustained": 0.5}'
    for text in ("{}", "[]", "{", huge.replace("1, ", '"x", ', 1), huge, "[" * 10_000):
        (damaged / "cost.json").write_text(text, encoding="utf-8")
        refused(table2.main(), "cost.json: must be what a training has written")
    (damaged / "cost.json").write_text(json.dumps(Cost(math.nan, 1, 1, 1).to_dict()), encoding="utf-8")
    refused(table2.main(), "must be what a training has written")
    assert (tmp_path / "table2.jsonl").read_text(encoding="utf-8") == kept
    costs = {"flops": 1e15, "flops_paper": 2e15, "seconds": 60.0, "machine": {"processor": "one"}}
    on_gpu = costs | {"seconds": 3.0, "machine": {"GPU": "a card"}}  # no hours of a core
    rows = [{"name": row, "seed": seed, **each} for row in table3.PAPER for seed, each in ((1, costs), (2, on_gpu))]
    (tmp_path / "table3.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["table2"])
    assert table2.main() == 0
    assert capsys.readouterr().out.count("| 0.02 | 1.00e+15 | 2.00e+15 |") == 20  # a row for each of Table 3


def test_a_seed_that_shared_the_machine_does_not_change_the_cost_of_a_training():
    shared, alone, elsewhere = (
        {"name": name, "flops": 1e15, "seconds": s, "flops_paper": s * rate, "machine": {"processor": processor}}
        for name, s, rate, processor in (("base", 90, 2e13, "a"), ("base", 60, 5e13, "a"), ("big", 80, 9e13, "b"))
    )
    cost, _ = table2.fastest("table3", [shared, alone, elsewhere])
    assert cost.hours == 60 / 3600 and cost.paper == pytest.approx(60 * 5e13)


@pytest.mark.parametrize(("model", "hours"), [("base", 12), ("big", 3.5 * 24)])
@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_papers_count_of_its_own_runs_is_its_table(model, hours, pair):
    ours = Cost(formula=0, seconds=hours * 3600, devices=8, sustained=9.5e12)  # of a P100  [sec. 6.1, footnote 5]
    printed = table2.TABLE_2[pair, f"Transformer ({model})"]
    assert f"{ours.paper:.1e}" == f"{printed:.1e}"


def test_the_big_model_costs_less_than_a_quarter_of_those_before_it():
    table = table2.TABLE_2
    others = [flops for (pair, name), flops in table.items() if pair == "en-fr" and "Transformer" not in name]
    assert min(others) / table["en-fr", "Transformer (big)"] > 4


@pytest.mark.parametrize(("model", "hours"), [("base", 12), ("big", 3.5 * 24)])
def test_the_papers_own_speed_gives_the_papers_own_hours(model, hours):
    _, updates, seconds = table2.PAPER[f"Transformer ({model})"]
    assert updates * seconds / 3600 == pytest.approx(hours, rel=0.08)
