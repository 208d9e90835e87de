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


def test_the_report_finds_the_rank_correlation_that_the_results_have(load):
    paper, report = load("table3").PAPER, load("table3_report")
    for factor, expected in ((2, 1), (-1, -1)):
        interval = report.correlation_interval(results_like(paper, factor, (-1e-4, 0, 1e-4)), paper)
        np.testing.assert_allclose(interval, expected, atol=0.05)
    for published, measured, error in report.deltas(results_like(paper, 2, (-0.01, 0, 0.01)), paper).values():
        assert measured == pytest.approx(2 * published) and error == pytest.approx(0.01 * math.sqrt(2 / 3))
    text = report.markdown(results_like(paper, 1, (0, 0)), paper)
    assert all(f"\n| {row} | 2 | " in text for row in paper)
    single = report.markdown(results_like(paper, 1, (0,)), paper)
    assert not any(
        "±" in line for line in single.splitlines() if line.startswith("|")
    )  # one seed has no standard error


def test_the_report_says_in_which_rows_perplexity_moves_as_in_the_paper(load):
    paper, verdict = load("table3").PAPER, load("table3_report").verdict
    direction = {
        row: "about equal" if row in ("A3", "D2", "E") else "higher" if perplexity > paper["base"][0] else "lower"
        for row, (perplexity, *_) in paper.items()
        if row != "base"
    }
    same = verdict(results_like(paper, 1, (-1e-3, 0, 1e-3)), paper)
    assert all(f"{row} ({how})" in same for row, how in direction.items()) and "does not agree" not in same
    opposite = verdict(results_like(paper, -1, (-1e-3, 0, 1e-3)), paper)
    wrong = {"higher": "lower", "lower": "higher"}
    assert all(f"{row} ({wrong[how]}, {how} in the paper" in opposite for row, how in direction.items() if how in wrong)
    unclear = verdict(results_like(paper, 1, (-9, 9)), paper)
    assert all(f"{row} ({how} in the paper)" in unclear for row, how in direction.items())
    single = verdict(results_like(paper, 1, (0,)), paper)
    assert f"has a single seed and is not compared in {', '.join(direction)}." in single


def test_the_report_says_whether_seeds_scatter_less_than_rows(load):
    paper, pilot = load("table3").PAPER, load("table3_report").pilot
    assert "0.006 nats, is below a third of the gap between C1 and base, 0.072." in pilot(
        results_like(paper, 1, (-0.01, 0, 0.01))
    )
    assert "is not below a third" in pilot(results_like(paper, 1, (-1, 0, 1)))


def test_ranks_of_equal_values_are_shared_as_spearman_does(load, rng):
    rank_correlation = load("seeds").rank_correlation
    a, b = rng.permutation(12).astype(float), rng.permutation(12).astype(float)
    assert rank_correlation(a, b) == pytest.approx(
        1 - 6 * ((a - b) ** 2).sum() / (12 * (12**2 - 1))
    )  # Spearman's formula
    np.testing.assert_array_equal(load("seeds").ranks(np.array([5.0, 1.0, 5.0])), [2.5, 1, 2.5])


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
