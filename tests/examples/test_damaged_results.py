"""Results that somebody has cut off or changed: each program says so in one line, and writes nothing."""

import json
import sys

import pytest
from extras import need

from examples.multi30k import ladder
from examples.paper import crossover, long_range, points, table1, table2, trials
from examples.parsing import compare, plot_results, speed
from minitransformer.errors import DataError

RESULT = {"name": "base", "seed": 1, "flops": 1e9}
SPEEDS = {
    f"{task}, {model}": {"seconds": 0.1, "settings": crossover.SETTINGS}
    for task in crossover.SETTINGS["tasks"]
    for model in crossover.SETTINGS["models"]
}
MAP = RESULT | {"settings": crossover.SETTINGS | {"update_seconds": dict.fromkeys(SPEEDS, 0.1)}}
NESTED = "[" * 100_000
UNFIT = "every result must have what the report shows"

# The program, its arguments, its files, a part of the line that it prints.
CASES = {
    "a table that is cut off": (table1.main, "--report", {"table1.json": '{"n": '}, f"table1.json: {UNFIT}"),
    "a table of nothing but brackets": (table1.main, "--report", {"table1.json": NESTED}, f"table1.json: {UNFIT}"),
    "a training without its cost": (table2.main, "", {"table2.jsonl": json.dumps(RESULT)}, UNFIT),
    "trainings without seconds": (table2.main, "", {"table3.jsonl": json.dumps(RESULT)}, UNFIT),
    "a training that is cut off": (plot_results.main, "", {"craft.json": '{"training": '}, f"craft.json: {UNFIT}"),
    "speeds that are cut off": (compare.main, "--results .", {"speed.json": '{"aligned-C": '}, f"speed.json: {UNFIT}"),
    "speeds without names": (compare.main, "--results .", {"speed.json": "[1]"}, f"speed.json: {UNFIT}"),
    "settings that are a number": (
        lambda: trials.main(long_range.EXPERIMENT),
        "--results r.jsonl",
        {"r.jsonl": json.dumps(RESULT | {"settings": 5})},
        "r.jsonl: results must have the settings of this call",
    ),
    "a map without parts": (
        crossover.main,
        "run --results r.jsonl",
        {"r.jsonl": json.dumps(MAP), "r_speed.json": json.dumps(SPEEDS)},
        f"r.jsonl: {UNFIT}",
    ),
    "rates without a task": (
        crossover.main,
        "rates --results r.jsonl",
        {"r.jsonl": json.dumps(MAP), "r_speed.json": json.dumps(SPEEDS)},
        f"r.jsonl: {UNFIT}",
    ),
    "a test set of nothing but brackets": (
        ladder.main,
        "--report --results r.jsonl",
        {"r.jsonl": json.dumps(RESULT | {"name": "R-Drop"}), "r_test.json": NESTED},
        f"r_test.json: {UNFIT}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_damaged_results_get_one_line_and_nothing_is_written(case, tmp_path, monkeypatch, refused):
    need("matplotlib", "sacrebleu", "sacremoses")
    main, arguments, files, message = CASES[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for module in (table1, table2, plot_results):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(table2, "OWN", tmp_path / "table2.jsonl")
    monkeypatch.setattr(crossover, "run_sweep", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["program", *arguments.split()])
    refused(main(), message)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize("text", ["{}", "[]", NESTED, '{"update": "x"}'])
def test_scores_on_the_way_that_are_none_are_refused(text, tmp_path):
    path = tmp_path / "points.jsonl"
    path.write_text(f'{text}\n{{"update": 3}}\n', encoding="utf-8")
    with pytest.raises(DataError, match="points.jsonl: "):
        points.read_points(path)


def test_no_speed_is_measured_where_it_cannot_be_kept(tmp_path):
    (tmp_path / "speed.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"speed\.json: "):
        speed.measure(tmp_path / "speed.json", {"a parser": None}, {})
