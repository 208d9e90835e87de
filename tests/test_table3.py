"""Table 3: scaling, parameter counts, report, and a sweep that was killed."""

import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from extras import need

EXAMPLE = Path(__file__).parents[1] / "examples/paper/table3.py"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    return importlib.import_module


def table3(*arguments):
    return subprocess.Popen(
        [sys.executable, EXAMPLE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )


def test_every_row_is_named_by_itself_or_by_its_group_once(load):
    rows_of = load("table3").rows_of
    assert rows_of(["C"]) == [f"C{number}" for number in range(1, 8)]
    assert rows_of(["B2", "base", "B"]) == ["B2", "base", "B1"]
    assert set(rows_of(["base", *"ABCDE", "big"])) == set(load("table3").PAPER)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--run", "C", "--processes", "0"], "--processes: must be an integer from 1 to"),
        (["--run", "C", "--seeds", "-1"], "--seeds: must be an integer from 1 to"),
        (["--run", "C", "--lr-scale", "nan"], "lr_scale"),
        (["--run", "b"], "row must be one of base, A1"),
    ],
)
def test_wrong_options_are_refused_before_any_training(tmp_path, words, message):
    process = table3(*words, "--directory", tmp_path / "runs", "--results", tmp_path / "results.jsonl")
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2 and message in error and "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change", [{"nll": None}, {"nll": "2"}, {"bleu": []}, {"machine": {}}, {"name": "Z9"}, {"seconds": {}}]
)
def test_a_result_without_what_the_report_shows_ends_in_one_line(load, tmp_path, monkeypatch, capsys, change):
    path = tmp_path / "results.jsonl"
    lines = [
        result | (change if result["name"] == "C1" else {}) for result in results_like(load("table3").PAPER, 1, (0, 1))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["table3", "--results", str(path)])
    assert load("table3").main() == 2
    assert capsys.readouterr().err.startswith(f"table3: {path}: ")
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


def test_an_unknown_row_is_refused_with_the_rows_that_exist(tmp_path):
    process = table3("--run", "C9", "--results", tmp_path / "results.jsonl")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert re.fullmatch(r"table3: row must be one of base, A1, .*, big or a group A to E, got 'C9'\n", errors)


@pytest.mark.parametrize("row", ["base", "A4", "B1", "C4", "C7", "big"])
def test_class_scale_divides_widths_by_4_and_layers_by_2_and_nothing_else(load, row):
    module = load("table3")
    full, scaled = module.ModelConfig.table3(row, 4000), module.class_scale(row, 4000)
    for name, value in vars(full).items():
        divisor = {"d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4, "n_layers": 2}.get(name, 1)
        assert getattr(scaled, name) * divisor == value if divisor > 1 else getattr(scaled, name) == value, name


def test_the_printed_vocabularies_give_the_papers_parameter_counts(load):
    module = load("table3")
    for line in module.parameter_lines()[1:]:
        found = re.fullmatch(r"(\w+) .* M +(\d+) M  ([\d,]+) to ([\d,]+)", line)
        if module.PAPER[line.split()[0]][2] is None:
            assert not found
            continue
        row, millions = found[1], int(found[2])
        low, high = (int(size.replace(",", "")) for size in found.groups()[2:])
        for size, expected in ((low, millions), (high, millions), (low - 1, millions - 1), (high + 1, millions + 1)):
            assert round(module.parameter_count(module.ModelConfig.table3(row, size)) / 1e6) == expected


def results_like(paper, factor, noise):
    """Results of three seeds whose log-perplexities differ from base's by ``factor`` times the paper's differences."""
    machine = {"processor": "a processor", "commit": "c0ffee"}
    return [
        {
            "name": row,
            "seed": seed,
            "nll": 2 + factor * math.log(perplexity / paper["base"][0]) + error,
            "bleu": bleu,
            "parameters": 10**6,
            "flops": 1e15,
            "flops_paper": 2e15,
            "seconds": 60.0,
            "settings": {"updates": 1},
            "machine": machine,
        }
        for row, (perplexity, bleu, _) in paper.items()
        for seed, error in enumerate(noise, 1)
    ]


def scattered(rng, paper, factor, common, own):
    """`results_like` with noise of each seed in common, and noise of each row's own."""
    results = results_like(paper, factor, (0, 0, 0))
    of_seed = dict(enumerate(common * rng.standard_normal(3), 1))
    return [r | {"nll": r["nll"] + of_seed[r["seed"]] + own * rng.standard_normal()} for r in results]


def test_rows_are_compared_with_base_seed_by_seed(load, rng):
    """Seeds scatter by a nat, in common, which hides every difference but from pairs."""
    paper, report = load("table3").PAPER, load("table3_report")
    rows = report.beside_base(scattered(rng, paper, 1, common=1.0, own=1e-4), paper)
    separate = {row for row, (perplexity, *_) in paper.items() if abs(math.log(perplexity / paper["base"][0])) > 0.02}
    assert len(separate) == 12 and {row for row in rows if rows[row].is_separate} == separate
    for row in separate - {"big"}:
        how = "higher" if paper[row][0] > paper["base"][0] else "lower"
        assert report.verdict(row, rows[row]) == f"{how}, as in the paper"
    opposite = report.beside_base(scattered(rng, paper, -1, common=1.0, own=1e-4), paper)
    assert all(report.verdict(row, opposite[row]).endswith(", not as in the paper") for row in separate - {"big"})
    unclear = report.beside_base(scattered(rng, paper, 1, common=0.0, own=9.0), paper)
    assert sum(report.verdict(row, unclear[row]) == "open: not told apart" for row in unclear) > 15
    single = report.beside_base(results_like(paper, 1, (0,)), paper)
    assert {report.verdict(row, single[row]) for row in single} == {"not tested: one seed", "not replicated by design"}


def test_rows_that_equal_base_are_all_left_open_in_nineteen_of_twenty_experiments(load, rng):
    """For each of the two questions, of the rows that the paper separates and of those it does not."""
    paper, report, n = load("table3").PAPER, load("table3_report"), 300
    alarms = {True: 0, False: 0}
    for _ in range(n):
        rows = report.beside_base(scattered(rng, paper, 0, common=1.0, own=0.1), paper).values()
        for kind in alarms:
            alarms[kind] += any(row.sign for row in rows if row.is_separate == kind)
    assert max(alarms.values()) / n < 0.05 + 4 * (0.05 * 0.95 / n) ** 0.5


def test_big_has_neither_a_test_nor_a_rank(load):
    paper, report = load("table3").PAPER, load("table3_report")
    pages = []
    for shift in (0, 9):
        results = results_like(paper, 1, (-1e-3, 0, 1e-3))
        results = [result | {"nll": result["nll"] + shift * (result["name"] == "big")} for result in results]
        rows = report.beside_base(results, paper)
        assert math.isnan(rows["big"].p_holm) and report.verdict("big", rows["big"]) == "not replicated by design"
        pages.append([line for line in report.markdown(results, paper).splitlines() if "correlation" in line])
    assert pages[0] == pages[1] and "all 1.00, A 1.00, C 1.00, D 1.00 (big left out" in pages[0][0]


def test_the_summary_counts_the_rows_that_lie_on_the_papers_side(load):
    paper, report = load("table3").PAPER, load("table3_report")
    for factor, sides in ((1, 12), (-1, 0)):
        results = results_like(paper, factor, (-1e-3, 0, 1e-3))
        assert report.summary(results, paper)[0][2] == f"agrees in {sides} of 12"
    turned = [r | {"nll": 4 - r["nll"]} if r["name"] == "A1" else r for r in results_like(paper, 1, (-1e-3, 0, 1e-3))]
    sides, told, *_ = report.summary(turned, paper)
    assert sides[1:] == ["all but: A1", "agrees in 11 of 12"] and told[2] == "agrees in 10, does not agree in 1"


def test_the_table_has_every_row_and_no_error_of_a_single_seed(load):
    paper, report = load("table3").PAPER, load("table3_report")
    text = report.markdown(results_like(paper, 1, (0, 0)), paper)
    assert all(f"\n| {row} | 2 | " in text for row in paper)
    single = report.markdown(results_like(paper, 1, (0,)), paper)
    assert not any("±" in line for line in single.splitlines() if line.startswith("|"))
    for measured in (["base"], ["C1"]):
        some = [result for result in results_like(paper, 1, (0, 1)) if result["name"] in measured]
        assert "verdict" not in report.markdown(some, paper)  # nothing to compare


@pytest.fixture(scope="module")
def small_data(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("multi30k"), np.random.default_rng(0)
    for part, n_lines in (("train", 300), ("val", 4)):
        lines = [" ".join(rng.choice(["a", "dog", "runs", "home", "now"], 5)) for _ in range(n_lines)]
        for side in ("en", "de"):
            (folder / f"{part}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def options(small_data, folder):
    sizes = ["--updates", 140, "--tokens", 64, "--vocab-size", 270, "--seeds", 1, "--processes", 1]
    return [*sizes, "--data", small_data, "--directory", folder / "runs", "--results", folder / "results.jsonl"]


def wait_until(is_there, process):
    until = time.monotonic() + 120
    while not is_there():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)


def test_a_sweep_that_was_killed_resumes_and_measures_the_same(load, small_data, tmp_path):
    need("sacrebleu", "matplotlib")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = table3("--run", "C1", *options(small_data, whole))
    assert process.wait(timeout=300) == 0, process.stderr.read()
    log, checkpoint = killed / "runs/C1-1.log", killed / "runs/C1-1/checkpoints/update_00000100.npz"
    for stop, is_there in (
        (signal.SIGKILL, checkpoint.exists),
        (signal.SIGTERM, lambda: "resumed from" in log.read_text(encoding="utf-8")),
    ):
        process = table3("--run", "C1", *options(small_data, killed))
        wait_until(is_there, process)
        if stop == signal.SIGKILL:
            os.killpg(process.pid, stop)  # of the sweep and its training at once, as when the power fails
        else:
            process.terminate()  # the sweep ends its training, which saves a checkpoint
        process.communicate(timeout=60)
        assert load("program").read_results(killed / "results.jsonl") == []
    process = table3("--run", "C1", *options(small_data, killed))
    assert process.wait(timeout=300) == 0, process.stderr.read()
    results = [json.loads((folder / "results.jsonl").read_text(encoding="utf-8")) for folder in (whole, killed)]
    assert results[0]["nll"] == results[1]["nll"] and results[0]["bleu"] == results[1]["bleu"]
    resumed = re.findall(r"resumed from .*update_(\d+)\.npz", log.read_text(encoding="utf-8"))
    assert len(resumed) == 2 and min(map(int, resumed)) >= 100  # nothing was trained again from the beginning
    assert (killed / "results.md").read_text(encoding="utf-8").count("| C1 | 1 |") == 1
