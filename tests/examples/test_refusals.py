"""Mistakes at the command line, and results that somebody has changed: one line says so, and nothing is written."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from extras import need

from examples import number_words
from examples.data.__main__ import main as data
from examples.multi30k import ladder
from examples.paper import architecture, crossover, heads, long_range, points, table1, table2, table3, trials
from examples.parsing import compare, plot_results, speed
from examples.tatoeba import prepare
from minitransformer.errors import DataError

RESULT = {"name": "base", "seed": 1, "flops": 1e9}
SPEEDS = {
    f"{task}, {model}": {"seconds": 0.1, "settings": crossover.SETTINGS}
    for task in crossover.SETTINGS["tasks"]
    for model in crossover.SETTINGS["models"]
}
MAP = RESULT | {"settings": crossover.SETTINGS | {"update_seconds": dict.fromkeys(SPEEDS, 0.1)}}
MAPS = {"r.jsonl": json.dumps(MAP), "r_speed.json": json.dumps(SPEEDS)}
NESTED = "[" * 100_000
UNFIT = "every result must have what the report shows"
MODEL = {"run.toml": "model = {vocab_size = 50, n_layers = 1, d_model = 8, d_ff = 8, n_heads = 2}"}
PICTURE = "run.toml -o a.png --set model."
NO_ATTENTION = (
    "program: the model must have multi-head attention for Figure 2, got model.kind transformer with 0 layers"
)
TEXTS = {"two": "one two\nthree four\n", "one": "eins zwei\n"}
SEARCH = f"--checkpoint '{Path(__file__).parents[2] / 'lessons/checkpoints/number_words.npz'}' --src two"
ROWS = "--directory runs --results results.jsonl --run"

# The program, its arguments, its files, a part of the line that it prints.
CASES = {
    "a picture of another kind": (architecture.main, "run.toml -o a.html", MODEL, ".png, .svg, got 'a.html'"),
    "a picture of no vocabulary": (architecture.main, f"{PICTURE}vocab_size=0", MODEL, "vocab_size must be given"),
    "a picture of no attention": (architecture.main, f"{PICTURE}n_layers=0 --part attention", MODEL, NO_ATTENTION),
    "texts of other lengths": (heads.main, f"{SEARCH} --tgt one", TEXTS, "same number of lines, got 2 and 1"),
    "text for a checkpoint": (heads.main, f"{SEARCH} --checkpoint one", TEXTS, "must be a whole checkpoint"),
    "no text": (heads.main, f"{SEARCH} --src none", TEXTS, "cannot be read"),
    "a folder of no languages": (prepare.main, "text", {}, "text: the name must end in two languages"),
    "a folder without text": (prepare.main, "x_en_de", {}, "x_en_de/train.en: cannot be"),
    "an unknown data set": (data, "get none", {}, "the name must be one of multi30k"),
    "a data set that is not there": (data, "get multi30k --from . --to d", {}, "must contain train.en"),
    "no numbers to learn from": (number_words.main, "--numbers 0", {}, "--numbers: must be an integer from 1 to"),
    "no process": (table3.main, f"{ROWS} C --processes 0", {}, "--processes: must be an integer from 1 to"),
    "fewer seeds than none": (table3.main, f"{ROWS} C --seeds -1", {}, "--seeds: must be an integer from 1 to"),
    "rows of other settings": (
        table3.main,
        f"{ROWS} C",
        {"results.jsonl": json.dumps(RESULT)},
        "results.jsonl: results must have the settings of this call, data = 'multi30k en-de', got None",
    ),
    "a rate that is none": (table3.main, f"{ROWS} C --lr-scale nan", {}, "lr_scale"),
    "an unknown row": (table3.main, f"{ROWS} b", {}, "row must be one of base, A1"),
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
    "a map without parts": (crossover.main, "run --results r.jsonl", MAPS, f"r.jsonl: {UNFIT}"),
    "rates without a task": (crossover.main, "rates --results r.jsonl", MAPS, f"r.jsonl: {UNFIT}"),
    "a test set of nothing but brackets": (
        ladder.main,
        "--report --results r.jsonl",
        {"r.jsonl": json.dumps(RESULT | {"name": "BPE dropout"}), "r_test.json": NESTED},
        f"r_test.json: {UNFIT}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_or_damaged_results_get_one_line_and_nothing_is_written(case, tmp_path, monkeypatch, refused):
    need("matplotlib", "sacrebleu", "sacremoses")
    main, arguments, files, message = CASES[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for module in (table1, table2, plot_results):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(table2, "OWN", tmp_path / "table2.jsonl")
    monkeypatch.setattr(crossover, "run_sweep", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["program", *shlex.split(arguments)])
    try:
        code = main()
    except SystemExit as ended:  # of a wrong option
        code = ended.code
    refused(code, message)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == files


NO_POINTS = ["{}", "[]", NESTED, '{"update": "x"}', '{"update": 2.5}', '{"update": 2, "score": NaN}']
OUT_OF_ORDER = ['{"update": 3}', '{"update": 9}', '{"update": 0}']


@pytest.mark.parametrize("text", [*NO_POINTS, *OUT_OF_ORDER])
def test_scores_on_the_way_that_are_none_are_refused(text, tmp_path):
    path = tmp_path / "points.jsonl"
    path.write_text(f'{text}\n{{"update": 3}}\n', encoding="utf-8")
    with pytest.raises(DataError, match="points.jsonl: "):
        points.read_points(path)


def test_no_speed_is_measured_where_it_cannot_be_kept(tmp_path):
    (tmp_path / "speed.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"speed\.json: "):
        speed.measure(tmp_path / "speed.json", {"a parser": None}, {})
